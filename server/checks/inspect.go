package checks

import (
	"bytes"
	"cmp"
	"errors"
	"slices"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/policy"
	"github.com/headgate-io/headgate/resp"
	"github.com/headgate-io/headgate/server/command"
	"github.com/headgate-io/headgate/server/limits/wire"
)

func (c *Checker) explain(call *command.Call) {
	if call.LongKeys(call.Args[1]) { // it reads the key that it explains
		call.Leave()
		return
	}
	x, ok, err := call.Sess.Explain(call.Now, call.Args[1])
	if err != nil {
		call.Fail(err)
		return
	}
	offender, limit, punished := c.offender(call.Sess.Engine(), call.Args[1], call.Now)
	switch {
	case ok:
	case lasts(offender.BlockedUntil, call.Now) > 0: // the units came back before the block ends
		x = engine.Explanation{Limit: limit, Quota: true, Capacity: limit.Capacity(), Remaining: limit.Capacity()}
	default:
		call.W.Null()
		return
	}
	p := command.NewPairs(call.W)
	p.Str("type", x.Limit.Algorithm.Type())
	explainOwner(p, call.Args[1], x.Limit.Algorithm)
	explainLimit(p, x.Limit)
	if punished {
		explainOffender(p, &offender, call.Now)
	}
	for _, f := range x.Facts {
		if f.Text != "" {
			p.Str(f.Name, f.Text)
		} else {
			p.Int(f.Name, f.Int)
		}
	}
	if x.Quota {
		p.Int("capacity", x.Capacity)
		p.Int("used", x.Used)
		p.Int("remaining", x.Remaining)
		p.Int("next_unit_ms", command.CeilMillis(x.NextAfter))
		p.Int("full_ms", command.CeilMillis(x.ResetAfter))
	}
	expires := int64(command.TTLPersistent)
	if !x.Persistent {
		expires = command.CeilMillis(x.ExpiresAfter)
	}
	p.Int("expires_ms", expires)
	p.Int("bytes", int64(x.Bytes))
	p.Flush()
}

func explainLimit(p *command.Pairs, l algo.Limit) {
	units, period, aligns := l.Algorithm.Has()
	if units {
		p.Int("limit", l.Limit)
	}
	if period {
		p.Str("period", wire.FormatPeriod(l.Period))
	}
	if l.Burst > 0 {
		p.Int("burst", l.Burst)
	}
	switch {
	case l.Align == algo.First:
		p.Str("align", "first")
	case aligns:
		p.Str("align", "epoch")
	}
	switch l.Rounding {
	case algo.Nanosecond:
		p.Str("rounding", "ns")
	case algo.Microsecond:
		p.Str("rounding", "us")
	}
}

// top replies [[key, count, error], …], the most frequent first. The true count is between
// count-error and count. With POLICY a blocked caller has a fourth value: how long the
// block lasts, in ms.
func (c *Checker) top(call *command.Call) {
	t, err := parseTop(call.Args[1:])
	if err != nil {
		call.Error(err.Error())
		return
	}
	e, now := call.Sess.Engine(), call.Now
	call.Host.Block(call, 0, func(w *resp.Writer) {
		if t.holders {
			t.writeHolders(w, c.homes.engines, now)
			return
		}
		ranked := t.ranked(e)
		if t.reset {
			e.ResetTop()
		}
		w.Array(len(ranked))
		for _, k := range ranked {
			blocked := int64(0)
			if t.policy != "" {
				x, _, _ := c.offender(c.homes.engineOfKey(k.Key), k.Key, now)
				blocked = lasts(x.BlockedUntil, now)
			}
			w.Array(3 + int(min(blocked, 1)))
			w.Bulk(k.Key)
			w.Int(int64(k.Count))
			w.Int(int64(k.Error))
			if blocked > 0 {
				w.Int(blocked)
			}
		}
	})
}

// writeHolders replies [[key, units, ttl_ms, id], …], the holders of leases that have most.
// The key of a policy's lease is what the keys of its counters begin with.
func (t *topArgs) writeHolders(w *resp.Writer, engines []*engine.Engine, now int64) {
	var top []engine.Holding
	for _, e := range engines {
		top = append(top, engine.Holders(e, now, t.count, func(h *engine.Holding) bool {
			return t.policy == "" || h.Policy && string(h.Key) == t.policy
		})...)
	}
	if len(engines) > 1 {
		slices.SortStableFunc(top, func(x, y engine.Holding) int { return cmp.Compare(y.Units, x.Units) })
		top = top[:min(len(top), t.count)]
	}
	w.Array(len(top))
	for i := range top {
		h := &top[i]
		if h.Policy {
			h.Key = []byte(policy.KeyPrefix(string(h.Key)))
		}
		w.Array(4)
		w.Bulk(h.Key)
		w.Int(h.Units)
		w.Int(command.CeilMillis(h.Until - now))
		w.Bulk(h.ID)
	}
}

// ranked returns the keys to list.
func (t *topArgs) ranked(e *engine.Engine) []engine.TopKey {
	if t.policy == "" {
		return e.Top(t.ranking, t.count)
	}
	prefix := []byte(policy.KeyPrefix(t.policy))
	all := slices.DeleteFunc(e.Top(t.ranking, engine.MaxTopK), func(k engine.TopKey) bool { return !bytes.HasPrefix(k.Key, prefix) })
	return all[:min(len(all), t.count)]
}

// topDefault is how many keys RL.TOP lists without COUNT.
const topDefault = 10

type topArgs struct {
	policy  string // of whose counters, "" for all keys
	ranking engine.Ranking
	holders bool // of leases, instead of keys
	count   int
	reset   bool
}

func parseTop(args [][]byte) (t topArgs, err error) {
	t = topArgs{ranking: engine.TopDenied, count: topDefault}
	ranked := false
	for ; len(args) > 0; args = args[1:] {
		ranking, isRanking := parseRanking(args[0])
		switch {
		case command.EqualFold(args[0], "holders") && !ranked:
			t.holders, ranked = true, true
		case isRanking && !ranked:
			t.ranking, ranked = ranking, true
		case command.EqualFold(args[0], "reset"):
			t.reset = true
		case command.EqualFold(args[0], "policy") && len(args) > 1:
			t.policy = string(args[1])
			args = args[1:]
		case command.EqualFold(args[0], "count") && len(args) > 1:
			n, ok := resp.ParseInt(args[1])
			if !ok || n < 1 {
				return t, errors.New("ERR COUNT must be at least 1")
			}
			t.count = int(min(n, engine.MaxTopK))
			args = args[1:]
		default:
			return t, command.ErrSyntax
		}
	}
	return t, nil
}

func parseRanking(b []byte) (engine.Ranking, bool) {
	switch {
	case command.EqualFold(b, "allowed"):
		return engine.TopAllowed, true
	case command.EqualFold(b, "denied"):
		return engine.TopDenied, true
	case command.EqualFold(b, "hot"):
		return engine.TopHot, true
	}
	return 0, false
}
