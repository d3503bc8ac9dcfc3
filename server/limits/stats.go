package limits

import "github.com/headgate-io/headgate/server/command"

// statsCommands returns the command that shows an operator the counts of all limits.
func statsCommands(totals func() Totals) []command.Spec {
	return []command.Spec{{
		Name: "rl.stats", Arity: 1, Flags: command.Readonly | command.Local, Categories: command.CatLimiter,
		Group: "limiter", Complexity: "O(S), S the number of shards",
		Summary: "Returns how many calls passed and were denied, and the size of the table.",
		Handler: stats(totals),
	}}
}

// Totals are counts of decisions since the start, or since CONFIG RESETSTAT.
type Totals struct{ Allowed, Denied, Degraded uint64 }

// stats returns the handler of RL.STATS, which replies totals of this server.
func stats(totals func() Totals) command.Handler {
	return func(call *command.Call) {
		n, st := totals(), call.Sess.Engine().Stats()
		p := command.NewPairs(call.W)
		p.Int("allowed", int64(n.Allowed))
		p.Int("denied", int64(n.Denied))
		p.Int("degraded", int64(n.Degraded))
		p.Int("keys", int64(st.Keys))
		p.Int("limits", int64(st.Limits))
		p.Int("memory_bytes", st.Bytes)
		p.Int("memory_max_bytes", st.MaxBytes)
		p.Int("expired", int64(st.Expired))
		p.Int("evicted", int64(st.Evicted))
		p.Flush()
	}
}
