package effects

import (
	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/engine/packed"
)

// codec describes how states of a kind travel, unless each word is a varint.
type codec struct {
	// packed is the value's kind in engine/packed; 0 for a kind whose state is the same
	// on all nodes.
	packed packed.Kind

	// encode appends a state of more than smallState words to an effect, in fewer bytes
	// than varints. decode reads such an encoding and appends the state to b. Both are
	// nil if each word is a varint.
	encode func(b, state []byte) []byte
	decode func(b []byte, words int, d *Decoder) []byte
	// large is set if the state can be large and is not packed. Deltas divide it into
	// pieces of evenPiece bytes.
	large bool
}

// codecs has a row for each kind with a codec of its own.
var codecs = [...]codec{
	algo.Log:         {encode: encodePairs, decode: decodePairs, large: true},
	algo.Slots:       {large: true},
	algo.Counter:     {encode: encodeBytes, decode: decodeBytes, large: true},
	algo.Hash:        {packed: packed.HashKind, encode: encodeCollection, decode: decodeCollection(packed.HashKind)},
	algo.Set:         {packed: packed.SetKind, encode: encodeCollection, decode: decodeCollection(packed.SetKind)},
	algo.SortedSet:   {packed: packed.SortedSetKind, encode: encodeCollection, decode: decodeCollection(packed.SortedSetKind)},
	algo.List:        {packed: packed.ListKind, encode: encodeCollection, decode: decodeCollection(packed.ListKind)},
	algo.PolicyLog:   {encode: encodePairs, decode: decodePairs, large: true},
	algo.HoldRecord:  {encode: encodeBytes, decode: decodeBytes},
	algo.PolicySlots: {large: true},
}

// words is the row of all other kinds.
var words codec

func codecOf(a algo.Algorithm) *codec {
	if int(a) < len(codecs) {
		return &codecs[a]
	}
	return &words
}

// AppendWire appends a state in the form that is the same on all nodes.
func AppendWire(b []byte, a algo.Algorithm, state []byte) []byte {
	return codecOf(a).appendWire(b, state)
}

// encodeBytes appends a state that is bytes, unchanged.
func encodeBytes(b, state []byte) []byte { return append(b, state...) }

// decodeBytes reads the output of encodeBytes.
func decodeBytes(b []byte, words int, d *Decoder) []byte {
	return append(b, d.Bytes(uint64(8*words))...)
}
