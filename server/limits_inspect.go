package server

import (
	"errors"
	"fmt"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/resp"
)

// inspectCommands tell an operator what limits hold and who meets them.
func inspectCommands() []command {
	return []command{{
		name: "rl.explain", arity: 2, flags: flagReadonly | flagFast,
		keys: keySpec{first: 1, last: 1, step: 1}, categories: catLimiter,
		group: "limiter", complexity: "O(1); O(N) for the N entries of a log or leases of a key",
		summary: "Tells a key's state, the limit it was last charged under, and when quota returns.",
		syntax:  "key",
		handler: cmdExplain,
	}, {
		name: "rl.top", arity: -1, flags: flagReadonly | flagLocal, categories: catLimiter,
		group: "limiter", complexity: "O(K log K), K the number of keys followed",
		summary: "Ranks keys by calls that passed, were denied, or both, lately.",
		syntax:  "[ALLOWED | DENIED | HOT] [COUNT count] [RESET]",
		handler: cmdTop,
	}, {
		name: "rl.stats", arity: 1, flags: flagReadonly | flagLocal, categories: catLimiter,
		group: "limiter", complexity: "O(S), S the number of shards",
		summary: "Tells how many calls passed and were denied, and what the table holds.",
		handler: cmdStats,
	}}
}

func cmdExplain(c *conn, args [][]byte) {
	x, ok := c.sess.Explain(c.now(), args[1])
	if !ok {
		c.w.Null()
		return
	}
	p := newPairs(c.w)
	p.str("type", typeName(x.Limit.Algorithm))
	switch x.Limit.Algorithm {
	case engine.Counter:
		p.str("value", x.Value.String())
	case engine.Slots:
		p.int("limit", x.Limit.Limit)
		p.int("leases", int64(x.Entries))
	default:
		explainLimit(p, x.Limit)
		explainState(p, &x)
	}
	if x.Limit.Algorithm != engine.Counter {
		p.int("capacity", x.Capacity)
		p.int("used", x.Used)
		p.int("remaining", x.Remaining)
		p.int("next_unit_ms", ceilMillis(x.NextAfter))
		p.int("full_ms", ceilMillis(x.ResetAfter))
	}
	p.int("expires_ms", expiresMillis(&x))
	p.int("bytes", int64(x.Bytes))
	p.flush()
}

// expiresMillis is -1 for a counter without TTL, as in PTTL.
func expiresMillis(x *engine.Explanation) int64 {
	if x.ExpiresAfter == 0 && x.Limit.Algorithm == engine.Counter {
		return ttlPersistent
	}
	return ceilMillis(x.ExpiresAfter)
}

func explainLimit(p *pairs, l engine.Limit) {
	p.int("limit", l.Limit)
	p.str("period", formatPeriod(l.Period))
	if l.Burst > 0 {
		p.int("burst", l.Burst)
	}
	switch {
	case l.Align == engine.First:
		p.str("align", "first")
	case l.Algorithm == engine.Fixed || l.Algorithm == engine.Sliding:
		p.str("align", "epoch")
	}
	switch l.Rounding {
	case engine.Nanosecond:
		p.str("rounding", "ns")
	case engine.Microsecond:
		p.str("rounding", "us")
	}
}

func explainState(p *pairs, x *engine.Explanation) {
	switch x.Limit.Algorithm {
	case engine.Token, engine.Leaky:
		p.int("tat_ns", x.TAT)
		p.int("tat_fraction", int64(x.TATFrac))
	case engine.Fixed:
		p.int("window_start_ms", x.WindowStart/1e6)
		p.int("current", x.Current)
	case engine.Sliding:
		p.int("window_start_ms", x.WindowStart/1e6)
		p.int("current", x.Current)
		p.int("previous", x.Previous)
	case engine.Log:
		p.int("entries", int64(x.Entries))
	}
}

// formatPeriod writes a period so that it can be given as an argument again.
func formatPeriod(ns int64) string {
	for _, u := range []struct {
		ns   int64
		name string
	}{{86400e9, "d"}, {3600e9, "h"}, {60e9, "m"}, {1e9, "s"}, {1e6, "ms"}, {1e3, "us"}} {
		if ns%u.ns == 0 {
			return fmt.Sprintf("%d%s", ns/u.ns, u.name)
		}
	}
	return fmt.Sprintf("%dns", ns)
}

// cmdTop replies [[key, count, error], …], first the most frequent: the true
// count is at most error below count.
func cmdTop(c *conn, args [][]byte) {
	t, err := parseTop(args[1:])
	if err != nil {
		c.error(err.Error())
		return
	}
	e := c.srv.engine
	c.block(func(w *resp.Writer) {
		top := e.Top(t.ranking, t.count)
		if t.reset {
			e.ResetTop()
		}
		w.Array(len(top))
		for _, k := range top {
			w.Array(3)
			w.Bulk(k.Key)
			w.Int(int64(k.Count))
			w.Int(int64(k.Error))
		}
	})
}

// topDefault is how many keys RL.TOP lists without COUNT.
const topDefault = 10

type topArgs struct {
	ranking engine.Ranking
	count   int
	reset   bool
}

func parseTop(args [][]byte) (t topArgs, err error) {
	t = topArgs{ranking: engine.TopDenied, count: topDefault}
	ranked := false
	for ; len(args) > 0; args = args[1:] {
		ranking, isRanking := parseRanking(args[0])
		switch {
		case isRanking && !ranked:
			t.ranking, ranked = ranking, true
		case equalFold(args[0], "reset"):
			t.reset = true
		case equalFold(args[0], "count") && len(args) > 1:
			n, ok := resp.ParseInt(args[1])
			if !ok || n < 1 {
				return t, errors.New("ERR COUNT must be at least 1")
			}
			t.count = int(min(n, engine.MaxTopK))
			args = args[1:]
		default:
			return t, errOptions
		}
	}
	return t, nil
}

func parseRanking(b []byte) (engine.Ranking, bool) {
	switch {
	case equalFold(b, "allowed"):
		return engine.TopAllowed, true
	case equalFold(b, "denied"):
		return engine.TopDenied, true
	case equalFold(b, "hot"):
		return engine.TopHot, true
	}
	return 0, false
}

// cmdStats replies totals of this server since its start or CONFIG RESETSTAT.
func cmdStats(c *conn, _ [][]byte) {
	passed, denied := c.srv.stats.decisions()
	st := c.srv.engine.Stats()
	p := newPairs(c.w)
	p.int("allowed", int64(passed))
	p.int("denied", int64(denied))
	p.int("degraded", int64(c.srv.stats.counts[countDegraded].Load()))
	p.int("keys", int64(st.Keys))
	p.int("limits", int64(st.Limits))
	p.int("memory_bytes", st.Bytes)
	p.int("memory_max_bytes", st.MaxBytes)
	p.int("expired", int64(st.Expired))
	p.int("evicted", int64(st.Evicted))
	p.flush()
}
