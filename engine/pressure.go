package engine

import (
	"math"

	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/shard"
)

// Keys without a quota are counters and other data. While data takes up to half of the
// memory, such a key ranks like a half used limit: it is evicted once no replenished key
// is left. Beyond that it ranks like a limit of which an eighth is used. So a flood of
// data evicts data, not limits.
const (
	halfUsed   = math.MaxUint32 / 2
	eighthUsed = math.MaxUint32 / 8
)

// pressure returns how much of its quota a key has used, from 0 for a full quota to
// MaxUint32 for an exhausted one. Eviction orders keys by it: forgetting a key gives
// exactly this share back to its caller. For crowded and alone see shard.Config.
func (e *Engine) pressure(ent shard.Entry, now int64) (crowded, alone uint32) {
	r := &e.limits.get(ent.Meta()).Rule
	a := r.Limit.Algorithm
	switch k := traitsOf(a); {
	case k.pressure != nil:
		alone = k.pressure(ent, now)
	case r.Limit.Leased:
		alone = math.MaxUint32 // forgetting it gives back what is out
	default:
		alone = r.Pressure(load(ent), now)
	}
	if a.Space() == algo.OffenceSpace {
		if p, crowded := e.crowdedOffences(ent, now); crowded {
			return p, p
		}
	}
	if a.IsData() {
		return eighthUsed, alone
	}
	return alone, alone
}

// valuePressure returns the pressure of a counter and of the other data types.
func valuePressure(shard.Entry, int64) uint32 { return halfUsed }
