package algo

import "encoding/binary"

// # Marks of counters
//
// A refund needs the counter that was charged. One that was deleted, evicted, reset,
// or carried over to other numbers does not know the charge. So a counter that a
// reservation charges is marked: its record has a random number, its generation, after
// the words of its algorithm, where nothing looks that does not know of marks. Whatever
// makes a new state of the counter leaves the mark out, and with it what could be given
// back. What keeps the mark has to say so: see Rule.Keeps.
//
//	token, leaky   fraction | generation << 32, number of reservations, lows
//	fixed          count, generation; also of a calendar
//	sliding        previous count, count, generation
//	log            the ring, of an even number of words, generation
//
// The record of a bucket has an even number of words then, and has its lows: see
// lows.go.
//
// A counter that was never reserved has none, and is charged by the same path as
// ever: its record has as many words as its algorithm wants.

// Mark is what a counter's record has beside the state of its algorithm, and what a
// charge makes of it.
type Mark struct {
	Generation uint32 // 0: none
	// Held is, of a bucket, how many reservations have been charged before.
	Held uint32
	note lowNote
}

// Words returns how many words m has in a record of r's.
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

// Put writes the generation into a record of r's that has room for it, after the state.
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

// Note plans what a charge makes of a marked record, whose state was st before it. The
// record may be missing then.
func (m *Mark) Note(record []byte, st State, now int64) {
	m.note = noteLow(record, m.Held, st.bucket().used(Clamp(now)))
}

// Forget is for a record that is gone with its lows: nothing is given back of what was
// charged before.
func (m *Mark) Forget() { m.note.forget() }

// PutCharge is Put after a charge, by a reservation or not, that Note has planned.
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

// Keeps reports whether a charge by r leaves what could be given back of a state, which
// was written under old, as it is. A bucket is carried over to other numbers; counts and
// entries stay what they are, unless what they are counted by has changed.
func (r *Rule) Keeps(old *Rule) bool {
	was, is := &old.Limit, &r.Limit
	return was.Algorithm == is.Algorithm && !r.Decides.algorithm().timed &&
		was.Resets == is.Resets && was.Scalings == is.Scalings && was.Period == is.Period && was.Align == is.Align
}

func word(record []byte, i int) uint64 { return binary.LittleEndian.Uint64(record[8*i:]) }

func setWord(record []byte, i int, v uint64) { binary.LittleEndian.PutUint64(record[8*i:], v) }
