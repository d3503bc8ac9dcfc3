package effects

import (
	"encoding/binary"

	"github.com/headgate-io/headgate/engine/packed"
)

// Hashes, sets, sorted sets and lists. Their values have room and an index that
// are this node's own: see engine/packed. What nodes send, keep and compare is
// their wire form.

// collection returns the value in a state of a kind with packed.
func Collection(state []byte) []byte { return state[:len(state)-int(state[len(state)-1])] }

// encodeCollection writes the value of a state in its wire form, with the
// length before it.
func encodeCollection(b, state []byte) []byte {
	at := len(b)
	b = packed.AppendWire(append(b, 0), Collection(state))
	n := len(b) - at - 1
	if n >= 0x80 { // the length has more than the one byte left for it
		var buf [binary.MaxVarintLen64]byte
		size := binary.PutUvarint(buf[:], uint64(n))
		b = append(b, buf[1:size]...)
		copy(b[at+size:], b[at+1:at+1+n])
	}
	binary.PutUvarint(b[at:], uint64(n))
	return b
}

// decodeCollection reads what encodeCollection has written. The state is this
// node's: the number of words is that of the writer's.
func decodeCollection(kind packed.Kind) func(b []byte, words int, d *Decoder) []byte {
	return func(b []byte, _ int, d *Decoder) []byte {
		wire := d.Bytes(d.UvarintMax(packed.MaxBytes))
		b, ok := appendCollection(b, kind, wire)
		if !ok {
			d.Fail()
		}
		return b
	}
}

// appendCollection appends the state of a value in its wire form, which may be
// anything: ok is false for what it is no value of.
func appendCollection(b []byte, kind packed.Kind, wire []byte) (state []byte, ok bool) {
	at := len(b)
	b, err := packed.FromWire(b, kind, wire)
	if err != nil {
		return b, false
	}
	pad := 8 - (len(b)-at)%8
	for range pad - 1 {
		b = append(b, 0)
	}
	return append(b, byte(pad)), true
}

// checkCollection reports whether a state, which may be anything, has a value
// that can be worked on.
func checkCollection(kind packed.Kind, state []byte) bool {
	if len(state) == 0 {
		return false
	}
	pad := int(state[len(state)-1])
	return pad >= 1 && pad <= 8 && packed.Check(kind, Collection(state)) == nil
}
