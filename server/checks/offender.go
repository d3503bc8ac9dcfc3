package checks

import (
	"hash/maphash"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/policy"
	"github.com/headgate-io/headgate/server/command"
)

// offenderOf returns the penalty record of the caller of a policy's counter. It returns
// false for a limit that has no penalty or is not enforced.
func offenderOf(e *engine.Engine, l *policy.Limit, n *policy.Numbers, key []byte, now int64) (engine.Offender, bool) {
	if l.Penalty == nil || n.Mode != policy.Enforce {
		return engine.Offender{}, false
	}
	return e.Offender(now, key, maphash.Bytes(e.Seed(), key), EngineLimit(l, n), (*engine.Penalty)(l.Penalty)), true
}

// offender is offenderOf for a key alone. It also returns the caller's limit. If the key does
// not show which numbers apply, it uses the first that may apply to the caller.
func (c *Checker) offender(e *engine.Engine, key []byte, now int64) (x engine.Offender, limit algo.Limit, ok bool) {
	name, id, pairs, ok := policy.ParseKey(key)
	if !ok {
		return x, limit, false
	}
	set, _ := c.book.Current()
	l := set.Policy([]byte(name)).LimitWithID(id)
	if l == nil || l.Penalty == nil {
		return x, limit, false
	}
	may, ok := policy.NewCall().Counter(l, key, pairs, now, nil)
	if !ok {
		return x, limit, false
	}
	x, ok = offenderOf(e, l, may[0].Numbers, key, now)
	return x, EngineLimit(l, may[0].Numbers), ok
}

// explainOffender shows the strikes of a caller, how long they still count, and how long
// the block still lasts. Both times are 0 for none.
func explainOffender(p *command.Pairs, x *engine.Offender, now int64) {
	p.Int("strikes", x.Strikes)
	p.Int("strikes_end_ms", lasts(x.StrikesEnd, now))
	p.Int("blocked_ms", lasts(x.BlockedUntil, now))
}

// lasts returns the time from now to end in ms, rounded up.
func lasts(end, now int64) int64 { return command.CeilMillis(max(end-now, 0)) }
