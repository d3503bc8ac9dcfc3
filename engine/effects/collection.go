package effects

import (
	"encoding/binary"

	"github.com/headgate-io/headgate/engine/packed"
)

// Hashes, sets, sorted sets and lists. Their values have room and an index that differ
// between nodes: see engine/packed. Nodes send, store and compare their wire form.

// Collection returns the value in a state of a packed kind.
func Collection(state []byte) []byte { return state[:len(state)-int(state[len(state)-1])] }

// encodeCollection appends the value of a state in its wire form, with its length before
// it.
func encodeCollection(b, state []byte) []byte {
	at := len(b)
	b = packed.AppendWire(append(b, 0), Collection(state))
	n := len(b) - at - 1
	if n >= 0x80 { // the length needs more than the one byte reserved
		var buf [binary.MaxVarintLen64]byte
		size := binary.PutUvarint(buf[:], uint64(n))
		b = append(b, buf[1:size]...)
		copy(b[at+size:], b[at+1:at+1+n])
	}
	binary.PutUvarint(b[at:], uint64(n))
	return b
}

// decodeCollection reads the output of encodeCollection. It returns this node's state;
// words is the number of words on the writer.
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

// appendCollection appends the state of a value given in its wire form, which may be any
// bytes. ok is false unless they are a value of the kind.
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

// checkCollection reports whether a state, which may be any bytes, has a usable value.
func checkCollection(kind packed.Kind, state []byte) bool {
	if len(state) == 0 {
		return false
	}
	pad := int(state[len(state)-1])
	return pad >= 1 && pad <= 8 && packed.Check(kind, Collection(state)) == nil
}
