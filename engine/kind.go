package engine

import (
	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/engine/packed"
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
	// packed is what the value is to engine/packed; 0 for a kind whose state is
	// the same on all nodes.
	packed packed.Kind

	// encode appends a state of more than smallState words to an effect, in
	// fewer bytes than a varint a word; decode reads what it has written, and
	// appends the state to b. Nil: a varint a word.
	encode func(b, state []byte) []byte
	decode func(b []byte, words int, d *decoder) []byte
	// large marks a state that can be large and is not packed: deltas take it in
	// pieces of evenPiece bytes.
	large bool

	// pressure and describe are of a kind that no limit decides by; of others their
	// rule says it. pressure is how much of its quota a key has used: see
	// Engine.pressure. describe fills in the raw state.
	pressure func(ent shard.Entry, now int64) uint32
	describe func(x *Explanation, ent shard.Entry)
}

// rows has a row for each Algorithm that has something of its own.
var rows = [...]traits{
	algo.Log:   {encode: encodePairs, decode: decodePairs, large: true},
	algo.Slots: {large: true},
	algo.Counter: {
		sized: true, encode: encodeBytes, decode: decodeBytes, large: true,
		pressure: valuePressure, describe: describeCounter,
	},
	algo.Hash: {
		sized: true, packed: packed.HashKind, encode: encodeCollection, decode: decodeCollection(packed.HashKind),
		pressure: valuePressure, describe: describeCollection,
	},
	algo.Set: {
		sized: true, packed: packed.SetKind, encode: encodeCollection, decode: decodeCollection(packed.SetKind),
		pressure: valuePressure, describe: describeCollection,
	},
	algo.SortedSet: {
		sized: true, packed: packed.SortedSetKind, encode: encodeCollection, decode: decodeCollection(packed.SortedSetKind),
		pressure: valuePressure, describe: describeCollection,
	},
	algo.List: {
		sized: true, packed: packed.ListKind, encode: encodeCollection, decode: decodeCollection(packed.ListKind),
		pressure: valuePressure, describe: describeCollection,
	},
	algo.PolicyLog: {encode: encodePairs, decode: decodePairs, large: true},
	algo.HoldRecord: {
		sized: true, encode: encodeBytes, decode: decodeBytes,
		pressure: valuePressure, describe: describeReservation,
	},
	algo.OffenceRecord: {pressure: offencePressure, describe: describeOffences},
	algo.PolicySlots:   {large: true},
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

// encodeBytes writes a state that is bytes: as they are.
func encodeBytes(b, state []byte) []byte { return append(b, state...) }

// decodeBytes reads what encodeBytes has written.
func decodeBytes(b []byte, words int, d *decoder) []byte {
	return append(b, d.bytes(uint64(8*words))...)
}

// load reads the state of an entry, which has a word or more.
func load(ent shard.Entry) algo.State {
	st := algo.State{Deadline: ent.Deadline(), First: ent.Word(0)}
	if ent.Words() > 1 {
		st.Second = ent.Word(1)
	}
	return st
}
