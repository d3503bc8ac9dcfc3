package server

import (
	"strconv"
	"time"

	"github.com/headgate-io/headgate/resp"
)

// latencyCommands are SLOWLOG and LATENCY.
func latencyCommands() []command {
	const flags = flagAdmin | flagLoading | flagStale | flagNoScript
	sub := func(name string, arity int, syntax, summary string, handler func(*conn, [][]byte)) command {
		return command{
			name: name, arity: arity, flags: flags, group: "server",
			complexity: "O(N), N the number of entries returned", summary: summary, syntax: syntax, handler: handler,
		}
	}
	return []command{{
		name: "slowlog", arity: -2, group: "server", complexity: "Depends on subcommand.",
		summary: "A container for slow log commands.",
		subs: []command{
			sub("get", -2, "[count]", "Returns the slow log's latest entries: 10, or count, or with -1 all.", cmdSlowlogGet),
			sub("len", 2, "", "Returns the number of entries in the slow log.", cmdSlowlogLen),
			sub("reset", 2, "", "Clears all entries from the slow log.", cmdSlowlogReset),
		},
	}, {
		name: "latency", arity: -2, group: "server", complexity: "Depends on subcommand.",
		summary: "A container for latency diagnostics commands.",
		subs: []command{
			sub("latest", 2, "", "Returns the latest latency samples for all events: none are recorded.", cmdLatencyNone),
			sub("history", 3, "event", "Returns timestamp-latency samples for an event: none are recorded.", cmdLatencyNone),
			sub("reset", -2, "[event [event ...]]", "Resets the latency data, histograms included.", cmdLatencyReset),
			sub("doctor", 2, "", "Returns a human-readable latency analysis report.", cmdLatencyDoctor),
			sub("histogram", -2, "[command [command ...]]", "Returns the cumulative distribution of latencies of commands.", cmdLatencyHistogram),
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
				w.Error("ERR the entries are more than client-output-buffer-limit, ask for fewer")
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

func cmdLatencyReset(c *conn, args [][]byte) {
	n := 0
	if len(args) == 2 {
		n = c.srv.stats.resetDurations()
	}
	c.w.Int(int64(n))
}

func cmdLatencyDoctor(c *conn, _ [][]byte) {
	var worst *command
	var mean time.Duration
	c.srv.table.each(func(cmd *command) {
		h := &c.srv.stats.durations[cmd.index]
		if n := h.count.Load(); n > 0 && time.Duration(h.sum.Load()/n) > mean {
			worst, mean = cmd, time.Duration(h.sum.Load()/n)
		}
	})
	text := "No command has been timed yet."
	if worst != nil {
		text = "The slowest command on average is " + worst.full + ", with " + mean.String() +
			". See LATENCY HISTOGRAM for all commands and SLOWLOG GET for single calls above " +
			c.srv.runtime.Load().SlowlogThreshold.String() + "."
	}
	c.w.Verbatim("txt", text+"\n")
}

// cmdLatencyHistogram replies, by command, how many calls were timed and how
// many of them took at most so many microseconds. Of fast commands about one
// batch in sixty-four is timed.
func cmdLatencyHistogram(c *conn, args [][]byte) {
	var list []*command
	if len(args) == 2 {
		c.srv.table.each(func(cmd *command) { list = append(list, cmd) })
	}
	if len(args)-2 > maxNames {
		c.error(errNames)
		return
	}
	for _, a := range args[2:] {
		cmd := c.srv.table.byFullName(a)
		if cmd == nil {
			continue
		}
		list = append(list, cmd)
		for i := range cmd.subs {
			list = append(list, &cmd.subs[i])
		}
	}
	timed := list[:0]
	for _, cmd := range list {
		if c.srv.stats.durations[cmd.index].count.Load() > 0 {
			timed = append(timed, cmd)
		}
	}
	c.w.Map(len(timed))
	for _, cmd := range timed {
		c.w.BulkString(cmd.full)
		c.srv.stats.durations[cmd.index].write(c.w)
	}
}

// write replies a histogram: the buckets up to the last that is not empty,
// cumulative.
func (h *histogram) write(w *resp.Writer) {
	var cumulative [len(h.buckets)]uint64
	last, total := 0, uint64(0)
	for i := range h.buckets {
		if n := h.buckets[i].Load(); n > 0 {
			total += n
			last = i
		}
		cumulative[i] = total
	}
	w.Map(2)
	w.BulkString("calls")
	w.Int(int64(total))
	w.BulkString("histogram_usec")
	w.Map(last + 1)
	for i := range last + 1 {
		w.Int(1 << i)
		w.Int(int64(cumulative[i]))
	}
}

// percentile estimates, in µs, what a share p of the timed calls did not
// exceed: the upper bound of a bucket.
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
