package reservation

import "encoding/binary"

// Encoder encodes records into memory that it keeps.
type Encoder struct{ buf []byte }

// SettledWords returns how many words the record of r may take once it is settled.
func (e *Encoder) SettledWords(r *Record) int {
	all := r.Limits
	r.Limits = SlotsOf(all)
	e.buf = Append(e.buf[:0], r)
	r.Limits = all
	return (int(binary.LittleEndian.Uint32(e.buf)) + answerBytes(all) + 7) / 8
}

// Encode returns the state of r, valid until the next call, and how many words its record
// takes. A record that can still be settled has room for the answer, so that its holder
// can settle it even if the table is full.
func (e *Encoder) Encode(r *Record) (state []byte, words int) {
	if r.State == Open || r.State == Released || r.State == Charged {
		words = e.SettledWords(r)
	}
	e.buf = Append(e.buf[:0], r)
	return e.buf, max(words, len(e.buf)/8)
}

// answerBytes bounds the bytes of a settlement's answer: the name of one of the limits,
// four numbers, and three that are 0 or 1.
func answerBytes(limits []Held) int {
	name := 0
	for i := range limits {
		name = max(name, len(limits[i].Name))
	}
	return 1 + name + 4*binary.MaxVarintLen64 + 3
}
