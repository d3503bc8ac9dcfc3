package server

import (
	"context"
	"encoding/hex"
	"math"
	"strconv"
	"time"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/resp"
	"github.com/headgate-io/headgate/server/command"
	"github.com/headgate-io/headgate/server/pubsub"
)

func serverCommands() []command.Spec {
	const flags = command.Loading | command.Stale
	return []command.Spec{
		{
			Name: "time", Arity: 1, Flags: flags | command.Fast | command.Forwarded | command.NoTable, Group: "server", Complexity: "O(1)",
			Summary: "Returns the server time, by which limits are decided.", Handler: onConn(cmdTime),
		},
		{
			Name: "info", Arity: -1, Flags: flags, Categories: command.CatDangerous, Group: "server", Complexity: "O(1)",
			Summary: "Returns information and statistics about the server.", Syntax: "[section [section ...]]", Handler: onConn(cmdInfo),
		},
		{
			Name: "monitor", Arity: 1, Flags: flags | command.Admin | command.NeedsConn | command.NoScript | command.NoMulti, Group: "server",
			Complexity: "O(1)", Summary: "Listens for all requests received by the server in real-time.", Handler: onSubscriber((*pubsub.Subscriber).Monitor),
		},
		{
			Name: "shutdown", Arity: -1, Flags: flags | command.Admin | command.Guarded | command.NeedsConn | command.NoScript | command.NoMulti, Group: "server",
			Complexity: "O(1)", Summary: "Stops the server after answering the commands that it has received.",
			Syntax: "[NOSAVE | SAVE] [NOW] [FORCE]", Handler: onConn(cmdShutdown),
		},
		{
			Name: "debug", Arity: -2, Flags: flags | command.Admin | command.NoScript, Group: "server",
			Complexity: "Depends on subcommand.", Summary: "A container for debugging commands.",
			Subs: []command.Spec{{
				Name: "digest", Arity: -2, Flags: flags | command.Admin | command.NoScript | command.NoMulti | command.Long, Group: "server",
				Complexity: "O(N), N the number of keys",
				Summary:    "Returns a hash over this node's keys with their limits and states, to compare nodes by.",
				Syntax:     "[AT unix-time-nanoseconds]", Handler: onConn(cmdDebugDigest),
			}, {
				Name: "sleep", Arity: 3, Flags: flags | command.Admin | command.NoScript | command.NoMulti, Group: "server", Complexity: "O(1)",
				Summary: "Holds up this connection, and no other, for some seconds.", Syntax: "seconds", Handler: onCall(cmdDebugSleep),
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

// cmdShutdown writes no reply if it succeeds: the connection ends.
func cmdShutdown(c *conn, args [][]byte) {
	for _, a := range args[1:] {
		switch {
		case command.EqualFold(a, "nosave"), command.EqualFold(a, "save"), command.EqualFold(a, "now"), command.EqualFold(a, "force"):
		case command.EqualFold(a, "abort"):
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

// cmdDebugSleep appears in the slow log, so that operators can try out the slow log.
func cmdDebugSleep(c *conn, call *command.Call) {
	args := call.Args
	seconds, err := strconv.ParseFloat(string(command.Clip(args[2], 32)), 64)
	if err != nil || math.IsNaN(seconds) || seconds < 0 || seconds > maxSleep.Seconds() {
		c.error("ERR seconds must be a number from 0 to 60")
		return
	}
	s, cmd, logged := c.srv, call.Spec, clipArgs(args)
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

// cmdDebugDigest replies the digest of this node's tables, whether the node leads or
// follows. It leaves out keys that have expired by the given time. So the digests of two
// nodes for the same time can be compared.
func cmdDebugDigest(c *conn, args [][]byte) {
	s, now := c.srv, c.now()
	if options := args[2:]; len(options) > 0 {
		at, ok := int64(0), len(options) == 2 && command.EqualFold(options[0], "at")
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
		var d engine.Digest
		for _, p := range s.cfg.Parts {
			d = d.Plus(p.Engine.Digest(now))
		}
		p := command.NewPairs(w)
		p.Str("digest", hex.EncodeToString(d.Sum[:]))
		p.Int("keys", int64(d.Keys))
		p.Int("clock", now)
		p.Flush()
	})
}
