package algo

import "encoding/binary"

// # Marks of counters
//
// A refund is valid only if the counter still contains the charge. A counter that was
// deleted, evicted, reset or converted to other numbers does not. So a reservation marks
// each counter that it charges. The mark is a random number, the generation, in the
// record after the words of the algorithm. Code that does not know of marks ignores it.
// Code that writes a new state leaves the mark out, which ends the refunds. Code that
// keeps the mark must say so: see Rule.Keeps.
//
//	token, leaky   fraction | generation << 32, number of reservations, lows
//	fixed          count, generation; also of a calendar
//	sliding        previous count, count, generation
//	log            the ring, of an even number of words, generation
//
// The record of a marked bucket has an even number of words, and its lows: see lows.go.
//
// A counter that was never reserved has no mark: its record has only the words of its
// algorithm, and a charge takes the plain path.

// Mark is the mark of a counter's record, and how a charge changes it.
type Mark struct {
	Generation uint32 // 0: none
	// Held is how many reservations have charged the bucket.
	Held uint32
	note lowNote
}

// Words returns how many words m takes in a record of r's.
func (m *Mark) Words(r *Rule) int {
	if r.Decides.algorithm().timed {
		return 1 + lowWords*m.note.lows()
	}
	return 1
}

// Mark returns the mark of a record of r's.
func (r *Rule) Mark(record []byte) Mark {
	n := len(record) / 8
	switch a := r.Decides.algorithm(); {
	case a.timed && n%2 == 0:
		return Mark{Generation: uint32(word(record, 0) >> 32), Held: uint32(word(record, 1))}
	case !a.timed && !a.list && n == a.words+1, a.list && n%2 == 1:
		return Mark{Generation: uint32(word(record, n-1))}
	}
	return Mark{}
}

// Put writes the generation into a record of r's, after the state. The record must have
// room for it.
func (m *Mark) Put(r *Rule, record []byte) {
	n := len(record) / 8
	switch a := r.Decides.algorithm(); {
	case a.list && n%2 == 0: // it could not be made smaller
	case a.timed:
		setWord(record, 0, uint64(uint32(word(record, 0)))|uint64(m.Generation)<<32)
	default:
		setWord(record, n-1, uint64(m.Generation))
	}
}

// Note plans how a charge changes a marked record. st is the state before the charge.
// record may be nil.
func (m *Mark) Note(record []byte, st State, now int64) {
	m.note = noteLow(record, m.Held, st.bucket().used(Clamp(now)))
}

// Forget adapts the plan to a record that has lost its lows: earlier charges cannot be
// refunded any more.
func (m *Mark) Forget() { m.note.forget() }

// PutCharge is Put after a charge that Note has planned. reserves is set for a charge by
// a reservation.
func (m *Mark) PutCharge(r *Rule, record []byte, reserves bool) {
	m.Put(r, record)
	if r.Decides.algorithm().timed {
		held := uint64(m.Held)
		if reserves {
			held++
		}
		setWord(record, 1, held)
		m.note.write(record, m.Held)
	}
}

// Keeps reports whether earlier charges stay refundable if r charges a state that was
// written under old. A bucket that is converted to other numbers loses them. Counts and
// entries keep them, unless r counts them differently.
func (r *Rule) Keeps(old *Rule) bool {
	was, is := &old.Limit, &r.Limit
	return was.Algorithm == is.Algorithm && !r.Decides.algorithm().timed &&
		was.Resets == is.Resets && was.Scalings == is.Scalings && was.Period == is.Period && was.Align == is.Align
}

func word(record []byte, i int) uint64 { return binary.LittleEndian.Uint64(record[8*i:]) }

func setWord(record []byte, i int, v uint64) { binary.LittleEndian.PutUint64(record[8*i:], v) }
