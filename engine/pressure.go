package engine

import (
	"math"
	"math/bits"

	"github.com/headgate-io/headgate/shard"
)

// counterPressure is that of an INCREX counter, which knows no quota: evicting
// it is as bad as evicting a half used limit.
const counterPressure = math.MaxUint32 / 2

// pressure tells how much of its quota a key has used, from 0 for a full quota
// to MaxUint32 for an exhausted one: what eviction orders keys by. Forgetting a
// key gives its caller back exactly this share.
func (e *Engine) pressure(ent shard.Entry, now int64) uint32 {
	r := &e.limits.get(ent.Meta()).rule
	switch r.limit.Algorithm {
	case Token, Leaky:
		return share(uint64(max(ent.Deadline()-now, 0)), r.capacity.ns)
	case Fixed:
		return share(ent.Word(0), uint64(r.burst))
	case Sliding:
		// The previous window weighs in full: at most twice too much, and
		// only towards keeping the key.
		return share(ent.Word(0)+ent.Word(1), uint64(r.burst))
	case Log, Slots:
		return share(ent.Word(1), uint64(r.burst))
	default:
		return counterPressure
	}
}

// share returns used/whole in 2^-32, at most MaxUint32.
func share(used, whole uint64) uint32 {
	if used >= whole {
		return math.MaxUint32
	}
	q, _ := bits.Div64(used>>32, used<<32, whole)
	return uint32(min(q, math.MaxUint32))
}
