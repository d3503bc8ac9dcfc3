package reservation

import (
	"encoding/binary"
	"slices"

	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/engine/effects"
)

// Reader decodes reservations, one after another, into memory that it keeps.
type Reader struct {
	Record Record
	limits []Held // limits of r
	keys   []byte // keys of these limits
	// names are names from earlier records, since most names recur.
	names map[string]string
	last  string // the last of names
}

// namesMost bounds the names that a reader keeps.
const namesMost = 256

// name returns bytes as a string, and reuses before if it is equal.
func (rd *Reader) name(b []byte, before string) string {
	if string(b) == before {
		return before
	}
	if s, ok := rd.names[string(b)]; ok {
		rd.last = s
		return s
	}
	if rd.names == nil || len(rd.names) >= namesMost {
		rd.names = make(map[string]string)
	}
	rd.last = string(b)
	rd.names[rd.last] = rd.last
	return rd.last
}

// Read decodes the state of an entry into copies. ok is false for bytes that are not a
// reservation.
func Read(state []byte) (r Record, ok bool) {
	var rd Reader
	ok = rd.Read(state)
	return rd.Record, ok
}

// Read decodes the state of an entry into Record, which is valid until the next call and
// does not refer to state. It returns false for bytes that are not a reservation.
func (rd *Reader) Read(state []byte) bool {
	r := &rd.Record
	*r, rd.keys = Record{}, rd.keys[:0]
	if len(state) < reservationHead {
		return false
	}
	n := binary.LittleEndian.Uint32(state)
	if n < reservationHead || int(n) > len(state) {
		return false
	}
	d := effects.Decoder{B: state[reservationHead:n]}
	r.State = State(state[stateAt])
	flags := state[stateAt+1]
	r.Charges, r.Named, r.Listed, r.Part, r.Asked = flags&1 != 0, flags&2 != 0, flags&4 != 0, flags&8 != 0, flags&asked != 0
	count := int(d.UvarintMax(MaxLimits))
	r.Keep = readDuration(&d)
	r.Version, r.Applied = d.Uvarint(), int(d.UvarintMax(MaxLimits))
	if r.State == Open || count > 0 {
		r.Ends = readInstant(&d)
	}
	if d.Bad || r.State < Open || r.State > None {
		return false
	}
	rd.limits = slices.Grow(rd.limits[:0], count)[:count]
	r.Limits = rd.limits
	var before []byte
	for i := range r.Limits {
		l := &r.Limits[i]
		rd.limit(&d, l, before, r.Ends)
		if d.Bad {
			return false
		}
		before = l.Key
	}
	if r.State == Committed || r.State == Cancelled {
		rd.settled(&d, &r.Answer)
		r.Answer.State, r.Answer.Version, r.Answer.Applied = r.State, r.Version, r.Applied
	}
	if r.Named {
		copy(r.Print[:], d.Bytes(uint64(len(r.Print))))
		rd.settled(&d, &r.First)
	}
	return !d.Bad && len(d.B) == 0
}

// limit decodes one limit into l, which still has the limit that was read last.
// Consecutive records are often of the same policy, so l usually has its numbers and
// names already.
func (rd *Reader) limit(d *effects.Decoder, l *Held, before []byte, ends int64) {
	has, kind := d.Byte(), d.Byte()
	was, name, by := l.Limit, l.Name, l.CostBy
	*l = Held{Mode: algo.Mode(kind >> modeShift), Each: 1}
	prefix := d.UvarintMax(uint64(len(before)))
	suffix := d.UvarintMax(uint64(len(before)) - prefix)
	middle := d.Short()
	start := len(rd.keys)
	rd.keys = append(append(append(rd.keys, before[:prefix]...), middle...), before[len(before)-int(suffix):]...)
	l.Key = rd.keys[start:len(rd.keys):len(rd.keys)]
	m := &l.Limit
	m.Algorithm, m.Limit, m.Period = algo.Algorithm(kind&algorithmMask), int64(d.Uvarint()), readDuration(d)
	if has&hasBurst != 0 {
		m.Burst = int64(d.Uvarint())
	}
	if has&hasEdits != 0 {
		m.Resets, m.Scalings = uint16(d.UvarintMax(1<<16-1)), uint16(d.UvarintMax(1<<16-1))
	}
	if has&hasShape != 0 {
		m.Rounding, m.Align = algo.Rounding(d.Byte()), algo.Align(d.Byte())
	}
	if *m != was && (!m.Algorithm.IsPolicy() || m.Validate() != nil) || *m == (algo.Limit{}) {
		*m = algo.Limit{}
		d.Fail()
	}
	l.Cost = int64(d.Uvarint())
	if has&hasDebt != 0 {
		l.Debt = int64(d.Uvarint())
	}
	l.Name = rd.name(readNamed(d, l.Key), name)
	if has&hasCostBy != 0 {
		l.CostBy = rd.name(d.Short(), by)
	}
	if has&hasEach != 0 {
		l.Each = int64(d.Uvarint())
	}
	c := &l.Receipt
	c.Generation = readUint32(d)
	if c.Whole = has&hasTaken == 0; !c.Whole {
		c.Taken.NS, c.Taken.Frac = d.Uvarint(), uint32(d.Uvarint())
	}
	c.Stamp.NS = uint64(d.Varint() + ends)
	if has&hasFrac != 0 {
		c.Stamp.Frac = readUint32(d)
	}
}

func (rd *Reader) settled(d *effects.Decoder, a *Settled) {
	*a = Settled{Name: rd.name(d.Short(), rd.last)}
	a.OK = d.Varint() != 0
	for _, n := range [...]*int64{&a.Limit, &a.Remaining, &a.RetryAfter, &a.ResetAfter, &a.Delay, &a.Over} {
		*n = d.Varint()
	}
}

func readDuration(d *effects.Decoder) int64 {
	const second = 1_000_000_000
	n := d.Uvarint()
	if n&1 != 0 {
		return int64(n >> 1)
	}
	return int64(n>>1) * second
}

func readNamed(d *effects.Decoder, key []byte) []byte {
	n := d.Uvarint()
	if n&1 == 0 {
		return d.Bytes(n >> 1)
	}
	n >>= 1
	at := d.UvarintMax(uint64(len(key)))
	if n > uint64(len(key))-at {
		d.Fail()
		return nil
	}
	return key[at : at+n]
}

func readUint32(d *effects.Decoder) uint32 {
	if b := d.Bytes(4); !d.Bad {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

func readInstant(d *effects.Decoder) int64 {
	n := d.Uvarint()
	if n&1 != 0 {
		return int64(n >> 1)
	}
	return int64(n>>1) * millisecond
}
