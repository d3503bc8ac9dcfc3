package server

import (
	"context"
	"encoding/hex"
	"math"
	"strconv"
	"time"

	"github.com/headgate-io/headgate/resp"
)

func serverCommands() []command {
	const flags = flagLoading | flagStale
	return []command{
		{
			name: "time", arity: 1, flags: flags | flagFast | flagForwarded, group: "server", complexity: "O(1)",
			summary: "Returns the server time, the one that limits are decided by.", handler: cmdTime,
		},
		{
			name: "info", arity: -1, flags: flags, categories: catDangerous, group: "server", complexity: "O(1)",
			summary: "Returns information and statistics about the server.", syntax: "[section [section ...]]", handler: cmdInfo,
		},
		{
			name: "monitor", arity: 1, flags: flags | flagAdmin | flagNoScript | flagNoMulti | flagSkipMonitor, group: "server",
			complexity: "O(1)", summary: "Listens for all requests received by the server in real-time.", handler: cmdMonitor,
		},
		{
			name: "shutdown", arity: -1, flags: flags | flagAdmin | flagNoScript | flagNoMulti, group: "server",
			complexity: "O(1)", summary: "Stops the server: what it has received is answered first.",
			syntax: "[NOSAVE | SAVE] [NOW] [FORCE]", handler: cmdShutdown,
		},
		{
			name: "debug", arity: -2, flags: flags | flagAdmin | flagNoScript, group: "server",
			complexity: "Depends on subcommand.", summary: "A container for debugging commands.",
			subs: []command{{
				name: "digest", arity: -2, flags: flags | flagAdmin | flagNoScript | flagNoMulti | flagLong, group: "server",
				complexity: "O(N), N the number of keys",
				summary:    "Returns a hash over this node's keys with their limits and states, to compare nodes by.",
				syntax:     "[AT unix-time-nanoseconds]", handler: cmdDebugDigest,
			}, {
				name: "sleep", arity: 3, flags: flags | flagAdmin | flagNoScript | flagNoMulti, group: "server", complexity: "O(1)",
				summary: "Holds up this connection, and no other, for some seconds.", syntax: "seconds", handler: cmdDebugSleep,
			}},
		},
	}
}

// cmdTime replies seconds and microseconds, each as a string.
func cmdTime(c *conn, _ [][]byte) {
	var scratch [20]byte
	us := c.now() / int64(time.Microsecond)
	c.w.Array(2)
	c.w.Bulk(strconv.AppendInt(scratch[:0], us/1e6, 10))
	c.w.Bulk(strconv.AppendInt(scratch[:0], us%1e6, 10))
}

func cmdMonitor(c *conn, _ [][]byte) {
	if !c.monitoring {
		c.srv.startMonitor(c)
		c.setMeta(func(m *clientMeta) { m.monitor = true })
	}
	c.w.OK()
}

// cmdShutdown has no reply when it works: the connection ends.
func cmdShutdown(c *conn, args [][]byte) {
	for _, a := range args[1:] {
		switch {
		case equalFold(a, "nosave"), equalFold(a, "save"), equalFold(a, "now"), equalFold(a, "force"):
		case equalFold(a, "abort"):
			c.error("ERR No shutdown in progress.")
			return
		default:
			c.error(errSyntax)
			return
		}
	}
	if c.srv.cfg.Stop == nil {
		c.error("ERR SHUTDOWN is not available")
		return
	}
	c.srv.log.Info("shutdown by command", "client", c.addr)
	c.ending = closes
	go c.srv.cfg.Stop()
}

// maxSleep bounds DEBUG SLEEP.
const maxSleep = time.Minute

// cmdDebugSleep shows up in the slow log, which it is a way to try out.
func cmdDebugSleep(c *conn, args [][]byte) {
	seconds, err := strconv.ParseFloat(string(clip(args[2], 32)), 64)
	if err != nil || math.IsNaN(seconds) || seconds < 0 || seconds > maxSleep.Seconds() {
		c.error("ERR seconds must be a number from 0 to 60")
		return
	}
	s, cmd, logged := c.srv, c.lane.counted, clipArgs(args)
	c.blockAside(func(ctx context.Context, w *resp.Writer) {
		begin := time.Now()
		select {
		case <-ctx.Done():
		case <-time.After(time.Duration(seconds * float64(time.Second))):
		}
		s.record(c, cmd, logged, time.Since(begin))
		w.OK()
	})
}

// cmdDebugDigest replies the digest of this node's table, whether it leads or
// follows, as of a time: keys that have expired by then do not count, so that
// two nodes are compared as of the same one.
func cmdDebugDigest(c *conn, args [][]byte) {
	e, now := c.srv.engine, c.now()
	if options := args[2:]; len(options) > 0 {
		at, ok := int64(0), len(options) == 2 && equalFold(options[0], "at")
		if ok {
			at, ok = resp.ParseInt(options[1])
		}
		if !ok {
			c.error(errSyntax)
			return
		}
		now = at
	}
	c.block(func(w *resp.Writer) {
		d := e.Digest(now)
		p := newPairs(w)
		p.str("digest", hex.EncodeToString(d.Sum[:]))
		p.int("keys", int64(d.Keys))
		p.int("clock", now)
		p.flush()
	})
}
