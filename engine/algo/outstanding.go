package algo

import (
	"encoding/binary"
	"math"
	"math/big"
	"math/bits"
)

// # Leases
//
// A lease moves units of a limit to a holder, who spends them without asking. The units
// of a block are charged when they are granted. A unit of the block's refill is charged
// when it becomes due. Until the block's deadline these units are out: the units that
// are left in the limit and the units that are out together never exceed the capacity.
// So holders may spend their units at any time: a bucket that decided each of these
// spends itself would have admitted them. The reasons:
//
//   - The units that come into the limit and into the blocks together never exceed the
//     rate.
//   - The units that are left and the units that are out together never exceed the
//     capacity.
//   - So the limit and the holders together never have more units than that bucket would
//     have.

// MaxDue bounds the entries of an Outstanding.
const MaxDue = 16

// Outstanding has the units of a limit that are out, with the times when their leases
// end. The zero value is for a limit without leases.
type Outstanding struct {
	// Generation distinguishes the blocks of this record from the blocks of an earlier
	// record.
	Generation uint64
	due        []Due // in the order of At
	all        Due   // the sums of due; At is not used
}

// Due describes what ends at one time: blocks, refills or both.
type Due struct {
	At     int64  // Unix ns
	Units  int64  // units that are out until At
	Blocks int64  // how many blocks the units belong to
	Inflow uint64 // part of the rate that is reserved until At, in 2^-32
}

// maxInflow bounds Due.Inflow, so that it shares a word with Due.Blocks.
const maxInflow = 1<<48 - 1

const (
	dueWords   = 3
	dueHeader  = 1 // the generation
	blocksBits = 16
)

// DueRoom is how many entries an Outstanding may have for a moment: a new block is
// entered before neighbouring entries are merged.
const DueRoom = MaxDue + 2

// ReadOutstanding reads the output of Append, which zeros may follow. It keeps the entries
// in due if that has DueRoom.
func ReadOutstanding(record []byte, due []Due) (o Outstanding) {
	n := len(record) / 8
	if n < dueHeader {
		return o
	}
	o.Generation = word(record, 0)
	if o.due = due[:0]; cap(due) < DueRoom {
		o.due = make([]Due, 0, DueRoom)
	}
	for i := dueHeader; i+dueWords <= n && word(record, i) != 0; i += dueWords {
		o.due = append(o.due, Due{})
		d, last := &o.due[len(o.due)-1], word(record, i+2)
		d.At, d.Units, d.Blocks, d.Inflow = int64(word(record, i)), int64(word(record, i+1)), int64(last&(1<<blocksBits-1)), last>>blocksBits
		o.count(d, 1)
	}
	return o
}

// Lapsed returns how many units of a record were out at an end that has come by now.
func Lapsed(record []byte, now int64) (units int64) {
	for i := dueHeader; i+dueWords <= len(record)/8 && word(record, i) != 0 && int64(word(record, i)) <= now; i += dueWords {
		units += int64(word(record, i+1))
	}
	return units
}

// Words is the size of Append's output.
func (o *Outstanding) Words() int { return dueHeader + dueWords*len(o.due) }

// Append appends the record of o to b.
func (o *Outstanding) Append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint64(b, o.Generation)
	for _, d := range o.due {
		b = binary.LittleEndian.AppendUint64(b, uint64(d.At))
		b = binary.LittleEndian.AppendUint64(b, uint64(d.Units))
		b = binary.LittleEndian.AppendUint64(b, uint64(d.Blocks)|d.Inflow<<blocksBits)
	}
	return b
}

// Live reports whether something is out, or reserved, after now.
func (o *Outstanding) Live(now int64) bool { return len(o.due) > 0 && o.due[len(o.due)-1].At > now }

// count adds an entry to the sums, or with n = -1 takes it out.
func (o *Outstanding) count(d *Due, n int64) {
	o.all.Units += n * d.Units
	o.all.Blocks += n * d.Blocks
	o.all.Inflow += uint64(n) * d.Inflow
}

// whole reports whether no entry ends by a time. The sums are right then.
func (o *Outstanding) whole(now int64) bool { return len(o.due) == 0 || o.due[0].At > now }

// Sum returns how many units are out after now, and how many blocks have them.
func (o *Outstanding) Sum(now int64) (units, blocks int64) {
	if o.whole(now) {
		return o.all.Units, o.all.Blocks
	}
	for _, d := range o.due {
		if d.At > now {
			units, blocks = units+d.Units, blocks+d.Blocks
		}
	}
	return units, blocks
}

// Reserved returns how much of the rate is reserved after now, in 2^-32.
func (o *Outstanding) Reserved(now int64) (inflow uint64) {
	if o.whole(now) {
		return o.all.Inflow
	}
	for _, d := range o.due {
		if d.At > now {
			inflow += d.Inflow
		}
	}
	return inflow
}

// inflow returns the time that refills have added to a bucket's use, from since to now.
func (o *Outstanding) inflow(since, now int64) (sum Span) {
	if o.all.Inflow == 0 {
		return sum
	}
	for _, d := range o.due {
		if dt := min(now, d.At) - since; dt > 0 && d.Inflow > 0 {
			sum = shorter(sum.add(flowed(d.Inflow, dt)), endless)
		}
	}
	return sum
}

// floor returns the least use of a bucket at now, if its state was last written at
// since. The use has two parts: the units that are out, and the units of leases that
// ended after since, as far as they have not refilled yet.
func (o *Outstanding) floor(r *Rule, since, now int64) (least Span) {
	units, _ := o.Sum(since)
	for _, d := range o.due {
		if d.At > now {
			break
		}
		if d.At > since {
			then := filled(r, units).add(o.inflow(d.At, now))
			least = longer(least, then.sub(Span{NS: uint64(now - d.At)}))
			units -= d.Units
		}
	}
	return longer(least, filled(r, units))
}

// filled returns the use of a bucket of which units are out. More than the capacity are
// out after the limit was lowered: it is empty then, and refills as soon as they end.
func filled(r *Rule, units int64) Span {
	return shorter(times(uint64(units), r.num, r.den), r.capacity)
}

func longer(a, b Span) Span {
	if a.less(b) {
		return b
	}
	return a
}

// LeasedHead is how many words come first in the record of a leased counter of r, before
// the state and the mark that the record has without leases. For a bucket, these words
// are the TAT, the time since which the TAT is right, the peak (see Peak), and the time
// that refills add to the use from then on. This last word is needed if the
// Outstanding's record is gone before the bucket is full. For a window, the word is the
// deadline of its state, because a block may end after the window if the period was
// edited.
func LeasedHead(r *Rule) int {
	if r.Decides == Token {
		return 4
	}
	return 1
}

// LeasedWords is how many words the record of a leased counter of r's has without a mark.
func LeasedWords(r *Rule) int { return LeasedHead(r) + PlainWords(r) }

// Leasable reports whether units of r can be given as leases.
func Leasable(r *Rule) bool { return leasable(r.Decides) }

func leasable(a Algorithm) bool { return a == Token || a == Fixed || a == Sliding }

// Plain returns the state of a leased counter of r's as it is at now without leases: what
// Decide reads. record is the counter's: see LeasedHead.
func (o *Outstanding) Plain(r *Rule, record []byte, now int64) State {
	now = Clamp(now)
	head := LeasedHead(r)
	if r.Decides != Token {
		st := State{Deadline: int64(word(record, 0)), First: word(record, head)}
		if PlainWords(r) > 1 {
			st.Second = word(record, head+1)
		}
		return o.Floor(r, st, now)
	}
	tat := tokenState{int64(word(record, 0)), uint32(word(record, head))}
	since := int64(word(record, 1))
	inflow := Span{NS: word(record, 3)}
	if len(o.due) > 0 {
		inflow = o.inflow(since, now)
	}
	used := tat.used(since).add(inflow).sub(Span{NS: uint64(max(now-since, 0))})
	used = longer(used, o.floor(r, since, now))
	return shorter(used, Span{NS: uint64(latestInstant - now)}).after(now).stored()
}

// Floor returns st with at least as much in use as is out at now.
func (o *Outstanding) Floor(r *Rule, st State, now int64) State {
	units, _ := o.Sum(now)
	units = min(units, r.Burst)
	switch now = Clamp(now); r.Decides {
	case Token:
		least := shorter(filled(r, units), Span{NS: uint64(latestInstant - now)})
		if used := st.bucket().used(now); used.less(least) {
			return least.after(now).stored()
		}
	case Fixed:
		if w := r.fixedAt(r.counts(st), now); w.Cur < units {
			w.Cur = units
			return r.stored(w)
		}
	case Sliding:
		if w := r.slidingAt(r.counts(st), now); w.Cur < units {
			w.Cur = units
			return r.stored(w)
		}
	}
	return st
}

// Store writes a state that is right at now, and has no leases in it, to a leased
// counter's record. It returns the deadline of the state; the record lasts until Ends too.
// The mark is not written.
func (o *Outstanding) Store(r *Rule, st State, record []byte, peak, now int64) (deadline int64) {
	now = Clamp(now)
	head := LeasedHead(r)
	if r.Decides != Token {
		// A refund may have ended the state, but units may still be out.
		st = o.Floor(r, st, now)
		setWord(record, 0, uint64(st.Deadline))
		PutPlain(r, st, record[8*head:])
		return st.Deadline
	}
	tat := st.bucket()
	if tat.TAT < now {
		tat = tokenState{TAT: now}
	}
	setWord(record, 0, uint64(tat.TAT))
	setWord(record, 1, uint64(now))
	units, _ := o.Sum(now)
	inflow := o.inflow(now, maxInstant)
	setWord(record, 2, uint64(max(units, peak)))
	setWord(record, 3, uint64(inflow.ceil()))
	setWord(record, head, uint64(tat.Frac))
	return tat.used(now).add(inflow).after(now).TAT + 1
}

// Ends returns when nothing that is out at now matters any more: the limit is full then,
// if nothing else is charged.
func (o *Outstanding) Ends(r *Rule, now int64) (at int64) {
	if !o.Live(now) {
		return now
	}
	if at = o.due[len(o.due)-1].At; r.Decides != Token {
		return at
	}
	out, _ := o.Sum(now)
	most := filled(r, out).add(o.inflow(now, maxInstant)) // the most that is left to refill after an entry
	var units, next int64
	var rate uint64
	var inflow Span // of the entries after i, from the end of i on
	for i := len(o.due) - 1; i >= 0 && o.due[i].At > now; i-- {
		d := &o.due[i]
		if shorter(most, Span{NS: uint64(latestInstant - d.At)}).after(d.At).TAT < at {
			break // even with that, earlier entries do not end later
		}
		if rate > 0 {
			inflow = shorter(inflow.add(flowed(rate, next-d.At)), endless)
		}
		units, rate, next = units+d.Units, rate+d.Inflow, d.At
		left := shorter(filled(r, units).add(inflow), Span{NS: uint64(latestInstant - d.At)})
		at = max(at, left.after(d.At).TAT+1)
	}
	return at
}

// flowed returns what a part of the rate, in 2^-32, adds to a bucket's use within dt ns.
func flowed(rate uint64, dt int64) Span {
	hi, lo := bits.Mul64(rate, uint64(dt))
	return Span{hi<<32 | lo>>32, uint32(lo)}
}

// Forget drops what has ended by now. The state must be written at now, too.
func (o *Outstanding) Forget(now int64) {
	n := 0
	for n < len(o.due) && o.due[n].At <= now {
		o.count(&o.due[n], -1)
		n++
	}
	o.due = o.due[n:]
}

// Adopt converts the units that are out to another limit. Their number stays the same.
func (o *Outstanding) Adopt(r, old *Rule) {
	if r.num == old.num && r.den == old.den || r.den == 0 || old.num == 0 {
		return
	}
	up := new(big.Int).Mul(new(big.Int).SetUint64(r.num), new(big.Int).SetUint64(old.den))
	down := new(big.Int).Mul(new(big.Int).SetUint64(r.den), new(big.Int).SetUint64(old.num))
	_, blocks := o.Sum(math.MinInt64)
	for i := range o.due {
		d := &o.due[i]
		if d.Inflow == 0 {
			continue
		}
		o.count(d, -1)
		n := new(big.Int).Mul(new(big.Int).SetUint64(d.Inflow), up)
		n.Div(n, down)
		d.Inflow = maxInflow
		if n.IsUint64() {
			// Each block's share is rounded up: keep room for all of them.
			room := 2 * uint64(blocks+1)
			d.Inflow = min(n.Uint64(), maxInflow-room) + room
		}
		o.count(d, 1)
	}
}

// add enters a block. Neither the block nor its refill may have ended.
func (o *Outstanding) add(r *Rule, b *Block) {
	if inflow := b.inflow(r); inflow > 0 {
		o.enter(Due{At: b.RefillEnds, Inflow: inflow})
	}
	o.enter(Due{At: b.Deadline, Units: b.Out(), Blocks: 1})
	o.shrink()
}

// shrink brings o within its bound.
func (o *Outstanding) shrink() {
	for len(o.due) > MaxDue {
		o.merge()
	}
}

// room returns how many more units can be out after now.
func (o *Outstanding) room(r *Rule, now int64) int64 {
	units, _ := o.Sum(now)
	return max(r.Burst-units, 0)
}

func (o *Outstanding) enter(d Due) {
	i := o.from(d.At)
	if i < len(o.due) && o.due[i].At == d.At {
		o.join(&o.due[i], &d)
		return
	}
	o.count(&d, 1)
	o.due = append(o.due, Due{})
	copy(o.due[i+1:], o.due[i:])
	o.due[i] = d
}

// join adds d to an entry of o.
func (o *Outstanding) join(to, d *Due) {
	o.count(to, -1)
	to.Units, to.Blocks, to.Inflow = to.Units+d.Units, to.Blocks+d.Blocks, min(to.Inflow+d.Inflow, maxInflow)
	o.count(to, 1)
}

// from returns the first entry that ends at a time or after it.
func (o *Outstanding) from(at int64) int {
	i := 0
	for i < len(o.due) && o.due[i].At < at {
		i++
	}
	return i
}

// merge moves the entry with the nearest successor into that one. Its units are then out
// for longer than they need to be: callers are denied more, never less.
func (o *Outstanding) merge() {
	best := 0
	for i := 0; i+1 < len(o.due); i++ {
		if o.due[i+1].At-o.due[i].At < o.due[best+1].At-o.due[best].At {
			best = i
		}
	}
	o.count(&o.due[best], -1)
	o.join(&o.due[best+1], &o.due[best])
	o.due = append(o.due[:best], o.due[best+1:]...)
}

// remove takes out a block that has not ended at now. An entry can only be merged into a
// later entry, so the block's units are in entries that do not end before the block. If
// the first of these entries has fewer units, it was entered after a merge, and the rest
// is in later entries.
func (o *Outstanding) remove(r *Rule, b *Block, now int64) {
	units, blocks := b.Out(), int64(1)
	for i := o.from(b.Deadline); i < len(o.due); i++ {
		d := &o.due[i]
		took := Due{Units: min(units, d.Units), Blocks: min(blocks, d.Blocks)}
		d.Units, d.Blocks = d.Units-took.Units, d.Blocks-took.Blocks
		units, blocks = units-took.Units, blocks-took.Blocks
		o.count(&took, -1)
	}
	// A refill that has ended may be gone. If it was merged, it ends with its entry.
	if inflow := b.inflow(r); b.RefillEnds > now {
		for i := o.from(b.RefillEnds); i < len(o.due); i++ {
			d := &o.due[i]
			n := min(inflow, d.Inflow)
			d.Inflow, inflow = d.Inflow-n, inflow-n
			o.all.Inflow -= n
		}
	}
	kept := 0
	for i := range o.due {
		if d := &o.due[i]; d.Units > 0 || d.Blocks > 0 || d.Inflow > 0 {
			if kept != i {
				o.due[kept] = *d
			}
			kept++
		}
	}
	o.due = o.due[:kept]
}

// PlainRecord returns the record of a leasable counter without leases.
func PlainRecord(r *Rule, st State) []byte {
	record := make([]byte, 8*PlainWords(r))
	PutPlain(r, st, record)
	return record
}

// Anew returns the state of a counter that begins again from zero. Units that are out
// stay counted. Units of ended leases that still count stay counted too, because nobody
// knows when the counter began again. For a limit without leases, only a bucket counts
// these.
func (o *Outstanding) Anew(r *Rule, now int64) (st State) {
	now = Clamp(now)
	since := int64(0)
	switch r.Decides {
	case Token, Leaky:
		if used := shorter(o.floor(r, since, now), Span{NS: uint64(latestInstant - now)}); used != (Span{}) {
			st = used.after(now).stored()
		}
		return st
	case Fixed:
		since = r.fixedAt(windowState{}, now).Start
	case Sliding:
		since = r.slidingAt(windowState{}, now).Start
	default:
		return st
	}
	if units, _ := o.Sum(since); units > 0 {
		st = r.stored(windowState{Start: since, Cur: min(units, r.Burst)})
	}
	return st
}

// PutPlain writes the state of a leasable counter without leases to its record.
func PutPlain(r *Rule, st State, record []byte) {
	setWord(record, 0, st.First)
	if PlainWords(r) > 1 {
		setWord(record, 1, st.Second)
	}
}

// PlainWords is how many words a leasable counter's record has without leases.
func PlainWords(r *Rule) int { return r.Decides.algorithm().words }

// PerSecond returns the rate of a leasable limit, in units a second.
func PerSecond(r *Rule) float64 {
	if r.Decides == Token {
		return float64(r.den) / float64(r.num) * 1e9
	}
	return float64(r.Burst) / float64(r.Period) * 1e9
}
