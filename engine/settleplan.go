package engine

import (
	"errors"

	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/engine/reservation"
)

// plan plans the settlement of one limit.
func (x *settling) plan(l *reservation.Held, e *settlingLimit) error {
	e.key, e.hash = l.Key, l.Hash
	if l.Slots() {
		if x.to == reservation.Committed || x.to == reservation.Cancelled { // otherwise they have ended
			x.planEnd(e)
		}
		return nil
	}
	charged := l.Cost // the present cost
	if x.from == reservation.Released {
		charged = 0
	}
	switch x.to {
	case reservation.Charged:
		e.cost = charged
	case reservation.Committed:
		e.cost = l.Cost
		if x.how.Cost != nil {
			cost, ok, err := x.how.Cost(l)
			if err != nil {
				return err
			}
			if ok {
				e.cost = cost
			}
		}
	}
	switch {
	case e.cost > charged:
		return x.planCharge(l, e, e.cost-charged)
	case e.cost < charged:
		x.planRefund(l, e)
	}
	return nil
}

// planRefund plans to give back the part of the difference that is still in the counter.
// It must be the counter that was charged, and nothing may have voided the charge.
func (x *settling) planRefund(l *reservation.Held, e *settlingLimit) {
	sh := x.s.e.table.At(e.hash)
	e.ent, e.found = sh.Find(e.hash, e.key)
	if !e.found || e.ent.Expired(x.now) {
		return
	}
	it := x.s.e.limits.get(e.ent.Meta())
	if it.Limit.Algorithm != l.Limit.Algorithm {
		return
	}
	c := &l.Receipt
	if e.mark = it.Mark(plainPart(x.s, e.ent)); e.mark.Generation == 0 || e.mark.Generation != c.Generation {
		return
	}
	e.it, e.live, e.refunds = it, true, true
	if excess := it.Excess(c, l.Cost, e.cost); it.Limit.Leased {
		e.leased = true
		out := x.s.Leases().outstanding(sh, e.hash, e.key, x.now)
		e.refund = out.Refund(&it.Rule, c, e.ent.State(), x.now, excess)
	} else {
		e.refund = it.Refund(c, load(e.ent), e.ent.State(), x.now, excess)
	}
	e.write = e.refund.Write
}

// planEnd plans to end the hold's slots of a limit.
func (x *settling) planEnd(e *settlingLimit) {
	sh := x.s.e.table.At(e.hash)
	e.ent, e.found = sh.Find(e.hash, e.key)
	if !e.found || e.ent.Expired(x.now) {
		return
	}
	if it := x.s.e.limits.get(e.ent.Meta()); it.Limit.Algorithm == algo.PolicySlots && algo.Holders(e.ent.State()).Holds(x.now, holderOf(x.hold)) {
		e.it, e.live, e.refunds, e.write = it, true, true, true
	}
}

// planCharge plans to charge more units, even without room.
func (x *settling) planCharge(l *reservation.Held, e *settlingLimit, more int64) error {
	s, sh := x.s, x.s.e.table.At(e.hash)
	limit := l.Limit
	if x.how.Limit != nil {
		if now := x.how.Limit(l); now.Validate() == nil {
			limit = now
		}
	}
	e.taken = s.e.limits.acquireReplicated(limit)
	e.it = e.taken
	st, err := s.find(&e.weighed, sh, x.now)
	if errors.Is(err, ErrStale) { // already charged under a later edit
		e.it = s.e.limits.get(e.ent.Meta())
		st, err = loaded(s, &e.plan, e.it, x.now), nil
		if limit := e.it.Limit; e.leased {
			limit.Leased = false
			e.taken.refs.Add(-1)
			e.taken = s.e.limits.acquireReplicated(limit)
			e.it = e.taken
		}
	}
	if err != nil {
		return err
	}
	e.st, e.opts = st, algo.Options{Force: true}
	if x.how.Window != nil {
		e.opts.Window = x.how.Window(l)
	}
	more = e.it.Forcible(st, e.list(), x.now, more)
	err = s.evaluate(&e.plan, e.st, x.now, more, &e.opts)
	switch {
	case errors.Is(err, algo.ErrLogFull) && e.live && e.ring == nil:
		e.full, e.write, e.units = true, true, more
	case errors.Is(err, algo.ErrLogFull), errors.Is(err, algo.ErrOverflow), errors.Is(err, algo.ErrNoWindow): // a state that cannot hold it
		e.write = false
	default:
		return err
	}
	return nil
}
