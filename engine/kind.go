package engine

import (
	"math"

	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/shard"
)

// traits is what this package knows of a kind of state beyond its algorithm. A function
// that the kind does not use is nil. All other code treats all states alike: cuts,
// snapshots, undo and digests copy deadline and words. DESIGN.md says how to add a kind.
type traits struct {
	// sized is set if the number of words determines the meaning of a state. Then a
	// larger record would be misread.
	sized bool
	// pressure and describe are set for kinds that no limit decides by; for other kinds,
	// their rule answers. pressure returns how much of its quota a key has used: see
	// Engine.pressure. describe fills in the raw state.
	pressure func(ent shard.Entry, now int64) uint32
	describe func(x *Explanation, ent shard.Entry)
}

// rows has a row for each Algorithm whose traits are not bare.
var rows = [...]traits{
	algo.Counter:       {sized: true, pressure: valuePressure, describe: describeCounter},
	algo.Hash:          {sized: true, pressure: valuePressure, describe: describeCollection},
	algo.Set:           {sized: true, pressure: valuePressure, describe: describeCollection},
	algo.SortedSet:     {sized: true, pressure: valuePressure, describe: describeCollection},
	algo.List:          {sized: true, pressure: valuePressure, describe: describeCollection},
	algo.HoldRecord:    {sized: true, pressure: valuePressure, describe: describeReservation},
	algo.OffenceRecord: {pressure: offencePressure, describe: describeOffences},
	algo.LeaseRecord:   {pressure: outPressure, describe: describeOut},
	algo.BlockRecord:   {pressure: blockPressure, describe: describeBlock},
}

// bare is the row of all other kinds.
var bare traits

// traitsOf returns a's row.
func traitsOf(a algo.Algorithm) *traits {
	if int(a) < len(rows) {
		return &rows[a]
	}
	return &bare
}

// load reads the state of an entry, which has a word or more.
func load(ent shard.Entry) algo.State {
	st := algo.State{Deadline: ent.Deadline(), First: ent.Word(0)}
	if ent.Words() > 1 {
		st.Second = ent.Word(1)
	}
	return st
}

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
