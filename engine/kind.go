package engine

import (
	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/shard"
)

// traits is what one kind of state has of its own in this package, beside what its
// algorithm says of it; all else here treats states alike. Cuts, snapshots, undo and
// digests take deadline and words whole and ask no row: see DESIGN.md, which also says
// how to add a kind.
//
// A function that a kind has no use for is nil.
type traits struct {
	// sized marks a state whose number of words says how to read it: a record
	// that is larger than it needs to be would be misread.
	sized bool
	// pressure and describe are of a kind that no limit decides by; of others their
	// rule says it. pressure is how much of its quota a key has used: see
	// Engine.pressure. describe fills in the raw state.
	pressure func(ent shard.Entry, now int64) uint32
	describe func(x *Explanation, ent shard.Entry)
}

// rows has a row for each Algorithm that has something of its own.
var rows = [...]traits{
	algo.Counter:       {sized: true, pressure: valuePressure, describe: describeCounter},
	algo.Hash:          {sized: true, pressure: valuePressure, describe: describeCollection},
	algo.Set:           {sized: true, pressure: valuePressure, describe: describeCollection},
	algo.SortedSet:     {sized: true, pressure: valuePressure, describe: describeCollection},
	algo.List:          {sized: true, pressure: valuePressure, describe: describeCollection},
	algo.HoldRecord:    {sized: true, pressure: valuePressure, describe: describeReservation},
	algo.OffenceRecord: {pressure: offencePressure, describe: describeOffences},
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
