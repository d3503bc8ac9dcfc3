package engine

import (
	"math"
	"math/bits"

	"github.com/headgate-io/headgate/shard"
)

// A key that knows no quota, a counter or another data type, is a guest of the
// limits. While data takes up to half of the memory, evicting a key of it is as
// bad as evicting a half used limit: it goes when no replenished one is left.
// Beyond that it is as bad as a limit of which an eighth is used: who fills the
// table with data pushes out data, not the limits that count.
const (
	halfUsed   = math.MaxUint32 / 2
	eighthUsed = math.MaxUint32 / 8
)

// pressure tells how much of its quota a key has used, from 0 for a full quota
// to MaxUint32 for an exhausted one: what eviction orders keys by. Forgetting a
// key gives its caller back exactly this share. For crowded and alone see
// shard.Config.
func (e *Engine) pressure(ent shard.Entry, now int64) (crowded, alone uint32) {
	r := &e.limits.get(ent.Meta()).rule
	k := r.limit.Algorithm.kind()
	alone = k.pressure(r, ent, now)
	if k.space == offenders {
		if p, crowded := e.crowdedOffences(ent, now); crowded {
			return p, p
		}
	}
	if k.expires {
		return eighthUsed, alone
	}
	return alone, alone
}

func bucketPressure(r *rule, ent shard.Entry, now int64) uint32 {
	return share(uint64(max(ent.Deadline()-now, 0)), r.capacity.ns)
}

func fixedPressure(r *rule, ent shard.Entry, _ int64) uint32 {
	return share(ent.Word(0), uint64(r.burst))
}

// slidingPressure has the previous window weigh in full: at most twice too
// much, and only towards keeping the key.
func slidingPressure(r *rule, ent shard.Entry, _ int64) uint32 {
	return share(ent.Word(0)+ent.Word(1), uint64(r.burst))
}

// listPressure is that of logs and slots, whose second word is the total.
func listPressure(r *rule, ent shard.Entry, _ int64) uint32 {
	return share(ent.Word(1), uint64(r.burst))
}

// valuePressure is that of a counter and of the other data types.
func valuePressure(*rule, shard.Entry, int64) uint32 { return halfUsed }

// share returns used/whole in 2^-32, at most MaxUint32.
func share(used, whole uint64) uint32 {
	if used >= whole {
		return math.MaxUint32
	}
	q, _ := bits.Div64(used>>32, used<<32, whole)
	return uint32(min(q, math.MaxUint32))
}
