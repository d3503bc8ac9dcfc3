package reservation

import (
	"bytes"
	"encoding/binary"

	"github.com/headgate-io/headgate/engine/effects"
)

// # Records of reservations
//
//	length 4 | state 1 | flags 1 | limits, keep, version, applied
//	when it ends, if it is open or has limits
//	of each limit: which fields follow 1 | algorithm, and mode from modeShift on 1
//	               bytes of the key before it that this one begins with, that it ends with, and
//	               what is between; limit, period; those of burst, edits, rounding and align that follow
//	               cost; debt, if any; name, or where the key has it; attribute and factor of the cost, if any
//	               generation 4 | what was taken, if it is not what the cost takes | stamp
//	the answer of one that was committed or cancelled
//	fingerprint 16 and first answer of one with a name
//
// Numbers are varints. Periods and keep are durations (appendDuration), the end is an
// instant (appendInstant), and the stamp is the difference to the end. So a hold over
// three limits takes some 190 bytes.

// Bits that say which fields of a limit follow.
const (
	hasTaken = 1 << iota
	hasDebt
	hasCostBy
	hasEach // if it is not 1
	hasBurst
	hasEdits
	hasShape
	hasFrac // of the stamp
)

// modeShift and algorithmMask split the byte of algorithm and mode.
const (
	modeShift     = 6
	algorithmMask = 1<<modeShift - 1
)

// reservationHead is how many bytes come before the first varint; stateAt is the position
// of the state.
const (
	reservationHead = 6
	stateAt         = 4
)

// StateOf returns the state of a record, or 0 if it is not a reservation.
func StateOf(st []byte) State {
	if len(st) > stateAt {
		return State(st[stateAt])
	}
	return 0
}

// asked is the flag of Record.Asked.
const asked = 1 << 4

// MarkAsked notes in a record that its call was repeated.
func MarkAsked(st []byte) { st[stateAt+1] |= asked }

// Asked reports whether MarkAsked has marked a record.
func Asked(st []byte) bool { return len(st) > stateAt+1 && st[stateAt+1]&asked != 0 }

// Append encodes r as whole words.
func Append(b []byte, r *Record) []byte {
	start := len(b)
	b = append(b, 0, 0, 0, 0, byte(r.State), truth(r.Charges)|truth(r.Named)<<1|truth(r.Listed)<<2|truth(r.Part)<<3)
	if r.Asked {
		MarkAsked(b[start:])
	}
	b = binary.AppendUvarint(b, uint64(len(r.Limits)))
	b = appendDuration(b, r.Keep)
	b = binary.AppendUvarint(b, r.Version)
	b = binary.AppendUvarint(b, uint64(r.Applied))
	if r.State == Open || len(r.Limits) > 0 {
		b = appendInstant(b, r.Ends)
	}
	var before []byte
	for i := range r.Limits {
		b = r.Limits[i].append(b, before, r.Ends)
		before = r.Limits[i].Key
	}
	if r.State == Committed || r.State == Cancelled {
		b = r.Answer.append(b)
	}
	if r.Named {
		b = r.First.append(append(b, r.Print[:]...))
	}
	binary.LittleEndian.PutUint32(b[start:], uint32(len(b)-start))
	for len(b)%8 != start%8 {
		b = append(b, 0)
	}
	return b
}

func (l *Held) append(b, before []byte, ends int64) []byte {
	at := len(b)
	m := &l.Limit
	b = append(b, 0, byte(m.Algorithm)|byte(l.Mode)<<modeShift)
	has := byte(0)
	prefix, suffix := alike(before, l.Key)
	b = binary.AppendUvarint(b, uint64(prefix))
	b = binary.AppendUvarint(b, uint64(suffix))
	b = effects.AppendShort(b, string(l.Key[prefix:len(l.Key)-suffix]))
	b = binary.AppendUvarint(b, uint64(m.Limit))
	b = appendDuration(b, m.Period)
	if m.Burst != 0 {
		has |= hasBurst
		b = binary.AppendUvarint(b, uint64(m.Burst))
	}
	if m.Resets|m.Scalings != 0 {
		has |= hasEdits
		b = binary.AppendUvarint(b, uint64(m.Resets))
		b = binary.AppendUvarint(b, uint64(m.Scalings))
	}
	if m.Rounding != 0 || m.Align != 0 {
		has |= hasShape
		b = append(b, byte(m.Rounding), byte(m.Align))
	}
	b = binary.AppendUvarint(b, uint64(l.Cost))
	if l.Debt != 0 {
		has |= hasDebt
		b = binary.AppendUvarint(b, uint64(l.Debt))
	}
	b = appendNamed(b, l.Key, l.Name)
	if l.CostBy != "" {
		has |= hasCostBy
		b = effects.AppendShort(b, l.CostBy)
	}
	if l.Each != 1 {
		has |= hasEach
		b = binary.AppendUvarint(b, uint64(l.Each))
	}
	c := &l.Receipt
	b = binary.LittleEndian.AppendUint32(b, c.Generation)
	if !c.Whole {
		has |= hasTaken
		b = binary.AppendUvarint(binary.AppendUvarint(b, c.Taken.NS), uint64(c.Taken.Frac))
	}
	b = binary.AppendVarint(b, int64(c.Stamp.NS)-ends)
	if c.Stamp.Frac != 0 {
		has |= hasFrac
		b = binary.LittleEndian.AppendUint32(b, c.Stamp.Frac)
	}
	b[at] = has
	return b
}

// alike returns the length of the common prefix of two keys, and that of the common
// suffix of the rest.
func alike(a, b []byte) (prefix, suffix int) {
	n := min(len(a), len(b))
	for prefix < n && a[prefix] == b[prefix] {
		prefix++
	}
	for suffix < n-prefix && a[len(a)-1-suffix] == b[len(b)-1-suffix] {
		suffix++
	}
	return prefix, suffix
}

// appendDuration encodes a duration in ns, 0 or more. Whole seconds take few bytes.
func appendDuration(b []byte, d int64) []byte {
	const second = 1_000_000_000
	if d%second == 0 {
		return binary.AppendUvarint(b, uint64(d/second)<<1)
	}
	return binary.AppendUvarint(b, uint64(d)<<1|1)
}

func (a *Settled) append(b []byte) []byte {
	b = effects.AppendShort(b, a.Name)
	for _, n := range [...]int64{int64(truth(a.OK)), a.Limit, a.Remaining, a.RetryAfter, a.ResetAfter, a.Delay, a.Over} {
		b = binary.AppendVarint(b, n)
	}
	return b
}

func truth(v bool) byte {
	if v {
		return 1
	}
	return 0
}

// appendNamed encodes the name of a limit: its place in the counter's key, or its text.
func appendNamed(b, key []byte, name string) []byte {
	n := uint64(len(name))
	if at := bytes.Index(key, []byte(name)); at >= 0 {
		return binary.AppendUvarint(binary.AppendUvarint(b, n<<1|1), uint64(at))
	}
	return append(binary.AppendUvarint(b, n<<1), name...)
}

// appendInstant encodes a time. Whole milliseconds take few bytes.
func appendInstant(b []byte, t int64) []byte {
	if t%millisecond == 0 {
		return binary.AppendUvarint(b, uint64(t/millisecond)<<1)
	}
	return binary.AppendUvarint(b, uint64(t)<<1|1)
}

const millisecond = 1_000_000
