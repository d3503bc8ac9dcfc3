package algo

import "encoding/binary"

// # Leases of several limits
//
// A lease of a policy is of all limits that apply, and a unit of the block is a unit of
// each. What is out of a limit is the limit's own part of the block. Parts may differ: a
// window has no refill, so it is charged all at once what others add as refill; a limit
// that does not bind has only what it had room for; a counter that was lost has what was
// charged again. What a holder has spent comes from the block, and is the same for all.

// Part is what one limit has of a block.
type Part struct {
	Generation uint64 // of the limit's Outstanding
	Units      int64  // charged at once
	Refill     int64  // charged as it becomes due
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

// Lending is one limit of a lease of several, in the course of a request.
type Lending struct {
	Rule *Rule
	// Binds is set if the limit can keep a lease small. Other limits are charged as many
	// units as they have.
	Binds bool
	State State       // at the time of the request, without leases
	Out   Outstanding // what is out of the limit
	Part  Part        // what it has of the block
	Offer Offer
}

// Begin ends the limit's part of a block, of which held units are left and spent units are
// spent. What is left stays charged. known is false if the limit has no such part: held is
// charged again, as far as there is room. charged is set if something was.
func (l *Lending) Begin(block *Block, known bool, now, held, spent int64, q *Request) (charged bool, err error) {
	now = Clamp(now)
	r := l.Rule
	l.Out.Forget(now)
	if known {
		own := l.Part.of(block)
		l.Out.remove(r, &own, now)
		left := max(own.has(now)-spent, 0)
		base := min(left, held)
		if left > base { // charged for a refill that is not due
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

// Ask sets Offer, after Begin, and when Need was decided.
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

// Give charges a block's more units and its refill, and enters the part of the block that
// is the limit's. charged is set if something was charged at once. d is what is left then.
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
		// There is no room for it: it is out until its deadline, whatever its holder says.
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

// Return ends the limit's part of a block of which spent units are spent, and returns how
// many units went back.
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

// Has returns how many units the holder of a block can have at now.
func (b *Block) Has(now int64) int64 { return b.has(Clamp(now)) }
