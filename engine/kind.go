package engine

import (
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
