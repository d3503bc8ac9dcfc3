package effects

import "encoding/binary"

// pairsAt is the word of the first pair in a log's list: see algo's log.go. Every second
// word from there on is a timestamp.
const pairsAt = 2

// encodePairs appends a ring in its effect's form: each timestamp as the difference to
// the timestamp before, the rest unchanged. It writes all places, used or not, so that a
// state is the same on every node.
func encodePairs(b, state []byte) []byte {
	last := int64(0)
	for i := range len(state) / 8 {
		v := int64(binary.LittleEndian.Uint64(state[8*i:]))
		if i >= pairsAt && i%2 == 0 {
			b = binary.AppendVarint(b, v-last)
			last = v
		} else {
			b = binary.AppendUvarint(b, uint64(v))
		}
	}
	return b
}

// decodePairs reads the output of encodePairs, and appends the state to b.
func decodePairs(b []byte, words int, d *Decoder) []byte {
	last := int64(0)
	for i := range words {
		if i >= pairsAt && i%2 == 0 {
			last += d.Varint()
			b = binary.LittleEndian.AppendUint64(b, uint64(last))
		} else {
			b = binary.LittleEndian.AppendUint64(b, d.Uvarint())
		}
	}
	return b
}
