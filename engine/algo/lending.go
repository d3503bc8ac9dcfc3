package algo

import "encoding/binary"

// # Leases of several limits
//
// A lease of a policy draws on all limits that apply: a unit of its block is a unit of each
// limit. Each limit has a Part of the block: the units that the block has charged to this
// limit. The parts of one block may differ:
//
//   - A window has no refill. So it is charged at once for units that other limits charge
//     as refill.
//   - A limit that does not bind is charged only as far as it has room.
//   - If a limit's counter was lost, its part is only what was charged again.
//
// How much the holder has spent follows from the block, and is the same for all limits.

// Part is how much of a block is charged to one limit.
type Part struct {
	Generation uint64 // Generation of the limit's Outstanding
	Units      int64  // units that were charged at once
	Refill     int64  // units, each charged when it becomes due
}

const partWords = 3

// AppendPart appends the record of a part, which comes after that of the block.
func AppendPart(record []byte, p Part) []byte {
	record = binary.LittleEndian.AppendUint64(record, p.Generation)
	record = binary.LittleEndian.AppendUint64(record, uint64(p.Units))
	return binary.LittleEndian.AppendUint64(record, uint64(p.Refill))
}

// AppendParts appends the parts of a record, which zeros may follow.
func AppendParts(parts []Part, record []byte) []Part {
	for i := blockWords; i+partWords <= len(record)/8 && word(record, i) != 0; i += partWords {
		parts = append(parts, Part{word(record, i), int64(word(record, i+1)), int64(word(record, i+2))})
	}
	return parts
}

// of returns the part as a block of its limit.
func (p Part) of(b *Block) Block {
	own := *b
	own.Generation, own.Units, own.Refill = p.Generation, p.Units, p.Refill
	return own
}

// Lending is one limit of a lease of several limits, while a request is decided.
type Lending struct {
	Rule *Rule
	// Binds says that the lease gets no more than this limit has left. A limit that does
	// not bind is charged for the lease only as far as it has units left.
	Binds bool
	State State       // state of the limit at the time of the request, without leases
	Out   Outstanding // the limit's units that holders may still spend
	Part  Part        // how much of the block is charged to the limit
	Offer Offer
}

// Begin takes the holder's earlier block out of Out. Of this block, the holder has spent
// `spent` units, and `held` units are left, which stay charged. known is false if the
// limit does not know the block. Then a limit that binds is charged again for held, as
// far as it has room. charged reports whether the limit was charged again.
func (l *Lending) Begin(block *Block, known bool, now, held, spent int64, q *Request) (charged bool, err error) {
	now = Clamp(now)
	r := l.Rule
	l.Out.Forget(now)
	if known {
		own := l.Part.of(block)
		l.Out.remove(r, &own, now)
		left := max(own.has(now)-spent, 0)
		base := min(left, held)
		if left > base { // give back what was charged early, for refill that is not due yet
			var d Decision
			if l.State, err = charge(r, l.State, now, base-left, &noOptions, &d); err != nil {
				return false, err
			}
		}
		l.Part.Units = base
	} else if l.Part = (Part{}); l.Binds {
		if base := min(held, portion(r.Burst, q.Share), l.Out.room(r, now)); base > 0 {
			var d Decision
			if l.State, err = charge(r, l.State, now, base, &Options{Force: true}, &d); err != nil {
				return false, err
			}
			l.Part.Units, charged = base, true
		}
	}
	l.Part.Refill = 0
	return charged, nil
}

// Ask sets Offer. Call it after Begin, when the call for Need has been decided.
func (l *Lending) Ask(now, held int64, q *Request) error {
	now = Clamp(now)
	r := l.Rule
	left, err := l.Left(now)
	out, _ := l.Out.Sum(now)
	l.Offer = r.offer(left, q, held, portion(r.Burst, q.Share)-out, now, &l.Out)
	return err
}

// Left returns how many units are left of the limit.
func (l *Lending) Left(now int64) (units int64, err error) {
	var d Decision
	_, err = charge(l.Rule, l.State, Clamp(now), 0, &noOptions, &d)
	return d.Remaining, err
}

// Full reports whether the limit has no room for one more block.
func (l *Lending) Full(now int64) bool {
	_, blocks := l.Out.Sum(now)
	return blocks >= MaxBlocks
}

// WindowEnd returns when a lease of the limit must end, 0 if it need not.
func (l *Lending) WindowEnd(now int64) int64 { return windowEnd(l.Rule, l.State, now) }

// Give charges the limit for the holder's next block: for the units that are new in it
// (more), and for its refill. It enters the limit's part of the block into Out. charged
// reports whether anything was charged at once. d receives how many units are left
// afterwards.
func (l *Lending) Give(block *Block, now, more int64, d *Decision) (charged bool, err error) {
	now = Clamp(now)
	r := l.Rule
	refill := min(block.Refill, l.Offer.flow(block.RefillEnds-block.Began))
	at := more + block.Refill - refill // at once
	if !l.Binds {
		refill = 0
		out, _ := l.Out.Sum(now)
		left, err := l.Left(now)
		if err != nil {
			return false, err
		}
		at = max(min(block.Out()-l.Part.Units, left, r.Burst-out-l.Part.Units), 0)
		if l.Full(now) {
			at = 0
		}
	}
	if at > 0 {
		var charges Decision
		if l.State, err = charge(r, l.State, now, at, &Options{Force: true}, &charges); err != nil {
			return false, err
		}
	}
	l.Part = Part{l.Out.Generation, l.Part.Units + at, refill}
	switch own := l.Part.of(block); {
	case own.Out() == 0:
	case l.Full(now):
		// Out has no room for the part. So its units are out until the deadline, even if the
		// holder returns the block earlier.
		l.Out.enter(Due{At: own.Deadline, Units: own.Units})
		l.Out.shrink()
		l.Part = Part{}
	default:
		l.Out.add(r, &own)
	}
	l.State = l.Out.Floor(r, l.State, now)
	_, err = charge(r, l.State, now, 0, &noOptions, d)
	return at > 0, err
}

// Return ends the limit's part of a block that its holder gives back. The holder has spent
// units of it. units is how many units the limit got back.
func (l *Lending) Return(block *Block, now, spent int64) (units int64, err error) {
	now = Clamp(now)
	r := l.Rule
	l.Out.Forget(now)
	own := l.Part.of(block)
	l.Out.remove(r, &own, now)
	if units = max(own.has(now)-spent, 0); units > 0 {
		var d Decision
		if l.State, err = charge(r, l.State, now, -units, &noOptions, &d); err != nil {
			return 0, err
		}
	}
	l.State = l.Out.Floor(r, l.State, now)
	return units, nil
}

// Has returns the most units that the holder of a block can have at the time now: the
// granted units, and the refill that is due.
func (b *Block) Has(now int64) int64 { return b.has(Clamp(now)) }
