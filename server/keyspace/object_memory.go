package keyspace

import (
	"fmt"
	"runtime/debug"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/resp"
	"github.com/headgate-io/headgate/server/command"
)

// objectCommand returns OBJECT, which shows tools how a key is stored.
func objectCommand() command.Spec {
	sub := func(name, summary string, handler command.Handler) command.Spec {
		return command.Spec{
			Name: name, Arity: 3, Flags: command.Readonly, Keys: command.Keys{First: 2, Last: 2, Step: 1}, Categories: command.CatKeyspace,
			Group: "generic", Complexity: "O(1)", Summary: summary, Syntax: "key", Handler: handler,
		}
	}
	return command.Spec{
		Name: "object", Arity: -2, Flags: command.Readonly, Group: "generic",
		Complexity: "Depends on subcommand.", Summary: "A container for object introspection commands.",
		Subs: []command.Spec{
			sub("encoding", "Returns the encoding that Redis would report for such a value, and raw for a limit's state.", objectEncoding),
			sub("refcount", "Returns 1 for a key that exists.", objectRefCount),
			sub("idletime", "Refused: keys have no access time.", objectIdleTime),
			sub("freq", "Refused: keys have no access frequency.", objectFreq),
		},
	}
}

func objectEncoding(call *command.Call) {
	if call.LongKeys(call.Args[2]) { // the command reads the key that it describes
		call.Leave()
		return
	}
	x, ok, err := call.Sess.Explain(call.Now, call.Args[2])
	replyIf(call, ok, err, func() { call.W.BulkString(x.Encoding) })
}

func objectRefCount(call *command.Call) {
	replyIfExists(call, func() { call.W.Int(1) })
}

// objectIdleTime and objectFreq reply errors. Redis does the same under an eviction policy
// that does not track these values.
func objectIdleTime(call *command.Call) {
	replyIfExists(call, func() { call.Error("ERR idle time is not tracked, see TTL for when a key expires") })
}

func objectFreq(call *command.Call) {
	replyIfExists(call, func() { call.Error("ERR access frequency is not tracked, see RL.TOP for the busiest keys") })
}

// replyIfExists calls reply for a key that exists and replies null otherwise.
func replyIfExists(call *command.Call, reply func()) {
	ok, err := call.Sess.Exists(call.Now, call.Args[2])
	replyIf(call, ok, err, reply)
}

// replyIf calls reply if ok. Otherwise it replies err, or null if err is nil.
func replyIf(call *command.Call, ok bool, err error, reply func()) {
	switch {
	case err != nil:
		call.Fail(err)
	case ok:
		reply()
	default:
		call.W.Null()
	}
}

// memoryCommand returns MEMORY, the memory of keys.
func memoryCommand() command.Spec {
	sub := func(name string, arity int, syntax, complexity, summary string, handler command.Handler) command.Spec {
		return command.Spec{
			Name: name, Arity: arity, Group: "server", Complexity: complexity,
			Summary: summary, Syntax: syntax, Handler: handler,
		}
	}
	usage := sub("usage", -3, "key [SAMPLES count]", "O(1)", "Returns the accounted bytes of a key.", memoryUsage)
	usage.Flags, usage.Keys = command.Readonly, command.Keys{First: 2, Last: 2, Step: 1}
	usage.Categories = command.CatKeyspace
	purge := sub("purge", 2, "", "O(N), N the bytes of the heap", "Gives unused memory back to the operating system.", memoryPurge)
	purge.Flags |= command.NoMulti
	return command.Spec{
		Name: "memory", Arity: -2, Flags: command.Readonly, Group: "server",
		Complexity: "Depends on subcommand.", Summary: "A container for memory diagnostics commands.",
		Subs: []command.Spec{
			usage,
			sub("stats", 2, "", "O(S), S the number of shards", "Returns details about memory usage.", memoryStats),
			sub("doctor", 2, "", "O(S), S the number of shards", "Reports about memory problems.", memoryDoctor),
			purge,
		},
	}
}

// memoryUsage accepts SAMPLES as Redis does, but always measures the whole value.
func memoryUsage(call *command.Call) {
	switch options := call.Args[3:]; {
	case len(options) == 0:
	case len(options) != 2 || !command.EqualFold(options[0], "samples"):
		call.Error(command.ErrSyntax.Error())
		return
	default:
		n, ok := resp.ParseInt(options[1])
		if !ok {
			call.Error(command.ErrNotInteger.Error())
			return
		}
		if n < 0 {
			call.Error(command.ErrSyntax.Error())
			return
		}
	}
	bytes, ok, err := call.Sess.Footprint(call.Now, call.Args[2])
	replyIf(call, ok, err, func() { call.W.Int(int64(bytes)) })
}

// memoryStats replies the fields of Redis that make sense here, and then the sizes of the
// table's parts.
func memoryStats(call *command.Call) {
	st := call.Sess.Engine().Stats()
	p := command.NewPairs(call.W)
	p.Int("total.allocated", st.Bytes)
	p.Int("keys.count", int64(st.Keys))
	p.Int("keys.bytes-per-key", st.Bytes/max(int64(st.Keys), 1))
	p.Int("dataset.bytes", st.RecordBytes)
	p.Int("dataset.keys.bytes", st.KeyBytes)
	p.Int("table.segments", int64(st.Segments))
	p.Int("table.chunks", int64(st.Chunks))
	p.Int("table.large-records", int64(st.Large))
	p.Int("limits.count", int64(st.Limits))
	p.Int("maxmemory", st.MaxBytes)
	p.Flush()
}

func memoryDoctor(call *command.Call) {
	call.W.Verbatim("txt", diagnoseMemory(call.Sess.Engine().Stats()))
}

// diagnoseMemory returns a text about the most serious problem with memory.
func diagnoseMemory(st engine.Stats) string {
	const nearly = 90 // percent
	used := int64(0)
	if st.MaxBytes > 0 {
		used = int64(float64(st.Bytes) / float64(st.MaxBytes) * 100)
	}
	switch {
	case st.Evicted > 0:
		return fmt.Sprintf("%d keys that still mattered were evicted to stay below maxmemory: their limits were reset. "+
			"Raise maxmemory, or set maxmemory-policy to noeviction to refuse new keys instead.", st.Evicted)
	case used >= nearly:
		return fmt.Sprintf("Keys take %d%% of maxmemory. At 100%% the maxmemory-policy decides: the keys closest to full quota are evicted, or new keys are refused.", used)
	case st.MaxBytes == 0:
		return "No limit is set: with maxmemory 0 keys may take all memory of the machine."
	}
	return fmt.Sprintf("No problem found: keys take %d%% of maxmemory and none was evicted.", used)
}

func memoryPurge(call *command.Call) {
	call.Host.Block(call, 0, func(w *resp.Writer) {
		debug.FreeOSMemory()
		w.OK()
	})
}
