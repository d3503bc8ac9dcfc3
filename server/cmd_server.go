package server

import (
	"math"
	"strconv"
	"time"

	"github.com/headgate-io/headgate/server/resp"
)

func serverCommands() []command {
	const flags = flagLoading | flagStale
	return []command{
		{
			name: "time", arity: 1, flags: flags | flagFast, group: "server", since: "1.0.0", complexity: "O(1)",
			summary: "Returns the server time, the one that limits are decided by.", handler: cmdTime,
		},
		{
			name: "info", arity: -1, flags: flags, categories: catDangerous, group: "server", since: "1.0.0", complexity: "O(1)",
			summary: "Returns information and statistics about the server.", syntax: "[section [section ...]]", handler: cmdInfo,
		},
		{
			name: "role", arity: 1, flags: flags | flagFast | flagNoScript, categories: catAdmin | catDangerous, group: "server", since: "1.0.0",
			complexity: "O(1)", summary: "Returns the replication role.", handler: cmdRole,
		},
		{
			name: "wait", arity: 3, flags: flagLeader, categories: catBlocking | catConnection, group: "generic", since: "1.0.0", complexity: "O(1)",
			summary: "Returns the number of replicas that have the connection's writes: 0 on a single node.",
			syntax:  "numreplicas timeout", handler: cmdWait,
		},
		{
			name: "monitor", arity: 1, flags: flags | flagAdmin | flagNoScript | flagNoMulti | flagSkipMonitor, group: "server", since: "1.0.0",
			complexity: "O(1)", summary: "Listens for all requests received by the server in real-time.", handler: cmdMonitor,
		},
		{
			name: "shutdown", arity: -1, flags: flags | flagAdmin | flagNoScript | flagNoMulti, group: "server", since: "1.0.0",
			complexity: "O(1)", summary: "Stops the server: what it has received is answered first.",
			syntax: "[NOSAVE | SAVE] [NOW] [FORCE]", handler: cmdShutdown,
		},
		{
			name: "debug", arity: -2, flags: flags | flagAdmin | flagNoScript, group: "server", since: "1.0.0",
			complexity: "Depends on subcommand.", summary: "A container for debugging commands.",
			subs: []command{{
				name: "sleep", arity: 3, flags: flags | flagAdmin | flagNoScript | flagNoMulti, group: "server", since: "1.0.0", complexity: "O(1)",
				summary: "Holds up this connection, and no other, for some seconds.", syntax: "seconds", handler: cmdDebugSleep,
			}, {
				name: "help", arity: 2, flags: flags, group: "server", since: "1.0.0", complexity: "O(1)",
				summary: "Returns helpful text about the different subcommands.", handler: cmdDebugHelp,
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

// cmdRole replies what a Redis without replicas does.
func cmdRole(c *conn, _ [][]byte) {
	c.w.Array(3)
	c.w.BulkString("master")
	c.w.Int(0)
	c.w.Array(0)
}

func cmdWait(c *conn, args [][]byte) {
	for i, name := range []string{"numreplicas", "timeout"} {
		n, ok := resp.ParseInt(args[i+1])
		if !ok {
			c.error(errNotAnInt)
			return
		}
		if n < 0 {
			c.error("ERR " + name + " is negative")
			return
		}
	}
	c.w.Int(0)
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
	c.closing = true
	go c.srv.cfg.Stop()
}

// maxSleep bounds DEBUG SLEEP, which takes a worker for its time.
const maxSleep = time.Minute

func cmdDebugSleep(c *conn, args [][]byte) {
	seconds, err := strconv.ParseFloat(string(clip(args[2], 32)), 64)
	if err != nil || math.IsNaN(seconds) || seconds < 0 || seconds > maxSleep.Seconds() {
		c.error("ERR seconds must be a number from 0 to 60")
		return
	}
	end := c.srv.end
	c.block(func(w *resp.Writer) {
		select {
		case <-end:
		case <-time.After(time.Duration(seconds * float64(time.Second))):
		}
		w.OK()
	})
}

func cmdDebugHelp(c *conn, _ [][]byte) {
	writeHelp(c.w, "DEBUG", "SLEEP <seconds>", "    Hold up this connection for <seconds>. Decimals allowed.")
}
