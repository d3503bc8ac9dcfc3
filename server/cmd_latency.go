package server

import (
	"slices"
	"strconv"
	"time"

	"github.com/headgate-io/headgate/resp"
	"github.com/headgate-io/headgate/server/command"
)

// latencyCommands returns SLOWLOG and LATENCY.
func latencyCommands() []command.Spec {
	const flags = command.Admin | command.Loading | command.Stale | command.NoScript
	sub := func(name string, arity int, extra command.Flag, syntax, summary string, handler command.Handler) command.Spec {
		return command.Spec{
			Name: name, Arity: arity, Flags: flags | extra, Group: "server",
			Complexity: "O(N), N the number of entries returned", Summary: summary, Syntax: syntax, Handler: handler,
		}
	}
	return []command.Spec{{
		Name: "slowlog", Arity: -2, Group: "server", Complexity: "Depends on subcommand.",
		Summary: "A container for slow log commands.",
		Subs: []command.Spec{
			sub("get", -2, 0, "[count]", "Returns the slow log's latest entries: 10, or count, or with -1 all.", onConn(cmdSlowlogGet)),
			sub("len", 2, 0, "", "Returns the number of entries in the slow log.", onConn(cmdSlowlogLen)),
			sub("reset", 2, command.Guarded, "", "Clears all entries from the slow log.", onConn(cmdSlowlogReset)),
		},
	}, {
		Name: "latency", Arity: -2, Group: "server", Complexity: "Depends on subcommand.",
		Summary: "A container for latency diagnostics commands.",
		Subs: []command.Spec{
			sub("latest", 2, 0, "", "Returns the latest latency samples for all events: none are recorded.", onConn(cmdLatencyNone)),
			sub("history", 3, 0, "event", "Returns timestamp-latency samples for an event: none are recorded.", onConn(cmdLatencyNone)),
			sub("reset", -2, command.Guarded, "[event [event ...]]", "Resets the latency data, histograms included.", onConn(cmdLatencyReset)),
			sub("doctor", 2, 0, "", "Returns a human-readable latency analysis report.", onConn(cmdLatencyDoctor)),
			sub("histogram", -2, 0, "[command [command ...]]", "Returns the cumulative distribution of latencies of commands.", onConn(cmdLatencyHistogram)),
		},
	}}
}

func cmdSlowlogGet(c *conn, args [][]byte) {
	n := int64(10)
	if len(args) > 2 {
		var ok bool
		if n, ok = resp.ParseInt(args[2]); !ok || n < -1 || len(args) > 3 {
			c.error("ERR count should be greater than or equal to -1")
			return
		}
	}
	slow, most := &c.srv.slow, c.srv.cfg.OutputBufferLimit
	c.block(func(w *resp.Writer) {
		entries := slow.latest(int(min(n, 1<<30)))
		start := len(w.B)
		w.Array(len(entries))
		for _, e := range entries {
			e.write(w)
			if len(w.B)-start > most {
				w.B = w.B[:start]
				w.Error("ERR the entries exceed client-output-buffer-limit, ask for fewer")
				return
			}
		}
	})
}

func (e *slowEntry) write(w *resp.Writer) {
	w.Array(6)
	w.Int(e.id)
	w.Int(e.at.Unix())
	w.Int(e.took.Microseconds())
	w.Array(len(e.args))
	for _, a := range e.args {
		w.Bulk(a)
	}
	w.BulkString(e.addr)
	w.BulkString(e.name)
}

func cmdSlowlogLen(c *conn, _ [][]byte) { c.w.Int(int64(c.srv.slow.len())) }

func cmdSlowlogReset(c *conn, _ [][]byte) {
	c.srv.slow.reset()
	c.w.OK()
}

func cmdLatencyNone(c *conn, _ [][]byte) { c.w.Array(0) }

// cmdLatencyReset replies 0, because no event has samples.
func cmdLatencyReset(c *conn, args [][]byte) {
	if len(args) == 2 {
		c.srv.stats.resetDurations()
	}
	c.w.Int(0)
}

func cmdLatencyDoctor(c *conn, _ [][]byte) {
	var worst *command.Spec
	var mean time.Duration
	c.srv.table.Each(func(cmd *command.Spec) {
		h := &c.srv.stats.durations[cmd.Index]
		if n := h.count.Load(); n > 0 && time.Duration(h.sum.Load()/n) > mean {
			worst, mean = cmd, time.Duration(h.sum.Load()/n)
		}
	})
	text := "No command has been timed yet."
	if worst != nil {
		text = "The slowest command on average is " + worst.Full + ", with " + mean.String() +
			". See LATENCY HISTOGRAM for all commands and SLOWLOG GET for single calls above " +
			c.srv.runtime.Load().SlowlogThreshold.String() + "."
	}
	c.w.Verbatim("txt", text+"\n")
}

// cmdLatencyHistogram replies, for each command, how many calls were timed, and how many of
// these took at most a number of microseconds. For fast commands, about one batch in
// sixty-four is timed.
func cmdLatencyHistogram(c *conn, args [][]byte) {
	var list []*command.Spec
	if len(args) == 2 {
		c.srv.table.Each(func(cmd *command.Spec) { list = append(list, cmd) })
	}
	if len(args)-2 > command.MaxNames {
		c.error(command.ErrNames)
		return
	}
	add := func(cmd *command.Spec) {
		if !slices.Contains(list, cmd) {
			list = append(list, cmd)
		}
	}
	for _, cmd := range c.srv.named(args[2:]) {
		add(cmd)
		for i := range cmd.Subs {
			add(&cmd.Subs[i])
		}
	}
	timed := list[:0]
	for _, cmd := range list {
		if c.srv.stats.durations[cmd.Index].count.Load() > 0 {
			timed = append(timed, cmd)
		}
	}
	c.w.Map(len(timed))
	for _, cmd := range timed {
		c.w.BulkString(cmd.Full)
		c.srv.stats.durations[cmd.Index].write(c.w)
	}
}

// write replies a histogram: cumulative buckets, up to the last bucket that is not empty.
func (h *histogram) write(w *resp.Writer) {
	upTo := h.cumulative()
	total := upTo[len(upTo)-1]
	w.Map(2)
	w.BulkString("calls")
	w.Int(int64(total))
	w.BulkString("histogram_usec")
	shown := 1
	for shown < len(upTo) && upTo[shown-1] < total {
		shown++
	}
	w.Map(shown)
	for i := range shown {
		w.Int(1 << i)
		w.Int(int64(upTo[i]))
	}
}

// percentile returns an estimate, in µs, of the time that a part p of the timed calls did
// not exceed. The estimate is the upper bound of a bucket.
func (h *histogram) percentile(p float64) string {
	need := uint64(p * float64(h.count.Load()))
	var seen uint64
	for i := range h.buckets {
		seen += h.buckets[i].Load()
		if seen > 0 && seen >= need {
			return strconv.Itoa(1 << i)
		}
	}
	return "0"
}
