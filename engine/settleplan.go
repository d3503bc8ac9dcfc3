package engine

import "errors"

// plan plans what becomes of one limit.
func (x *settling) plan(l *Reserved, e *settlingLimit) error {
	e.key, e.hash = l.Key, l.hash
	if l.slots() {
		if x.to == HoldCommitted || x.to == HoldCancelled { // else they have ended
			x.planEnd(e)
		}
		return nil
	}
	charged := l.Cost // as it stands
	if x.from == HoldReleased {
		charged = 0
	}
	switch x.to {
	case HoldCharged:
		e.cost = charged
	case HoldCommitted:
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

// planRefund plans that what the call does not cost is given back, as far as it is
// there: the counter is the one that was charged, and nothing has made void what
// it was charged.
func (x *settling) planRefund(l *Reserved, e *settlingLimit) {
	sh := x.s.e.table.At(e.hash)
	e.ent, e.found = sh.Find(e.hash, e.key)
	if !e.found || e.ent.Expired(x.now) {
		return
	}
	it := x.s.e.limits.get(e.ent.Meta())
	if it.limit.Algorithm != l.Limit.Algorithm {
		return
	}
	a, c := it.decides, &l.charge
	if e.mark = markOf(e.ent, a); e.mark.generation == 0 || e.mark.generation != c.generation {
		return
	}
	e.it, e.live, e.refunds = it, true, true
	excess := l.excess(&it.rule, e.cost)
	st := load(e.ent)
	switch a {
	case Token, Leaky:
		least, at := lowSince(e.ent, uint32(c.stamp.ns), st.bucket().used(clampInstant(x.now)))
		e.given, e.pair = shorter(excess, least), at
		e.write = e.given != span{}
		next := refundBucket(st.bucket(), x.now, e.given)
		if e.next = next.stored(); next != (tokenState{}) {
			e.words = 1
		}
	case Fixed:
		was := it.counts(st)
		next := it.refundFixed(c, was, x.now, int64(excess.ns))
		e.write = next != was
		if e.next = it.stored(next); next.Cur > 0 {
			e.words = 1
		}
	case Sliding:
		was := it.counts(st)
		next := it.refundSliding(c, was, x.now, int64(excess.ns))
		e.write = next != was
		if e.next = it.stored(next); next.Cur+next.Prev > 0 {
			e.words = 2
		}
	case PolicyCalendar:
		e.next = it.refundCalendar(c, st, x.now, int64(excess.ns))
		e.write = e.next.deadline != st.deadline || e.next.first != st.first
		if e.next.first > 0 {
			e.words = 1
		}
	case Log:
		e.units = int64(excess.ns)
		e.pair, e.write = logRing(e.ent.State()).entryOf(int64(c.stamp.ns), x.now, it.period)
	}
}

// planEnd plans that the slots that the hold has of a limit end.
func (x *settling) planEnd(e *settlingLimit) {
	sh := x.s.e.table.At(e.hash)
	e.ent, e.found = sh.Find(e.hash, e.key)
	if !e.found || e.ent.Expired(x.now) {
		return
	}
	if it := x.s.e.limits.get(e.ent.Meta()); it.limit.Algorithm == PolicySlots && slotsHold(e.ent.State(), x.now, leaseOf(x.hold)) {
		e.it, e.live, e.refunds, e.write = it, true, true, true
	}
}

// planCharge plans that more units are charged, whether there is room or not.
func (x *settling) planCharge(l *Reserved, e *settlingLimit, more int64) error {
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
	if errors.Is(err, ErrStale) { // charged under a later edit already
		e.it = s.e.limits.get(e.ent.Meta())
		st, err = load(e.ent), nil
	}
	if err != nil {
		return err
	}
	e.st, e.opts = st, Options{Force: true}
	if x.how.Window != nil {
		e.opts.Window = x.how.Window(l)
	}
	ring := logRing(e.ring)
	if ring == nil {
		ring = e.state()
	}
	more = e.it.forcible(st, ring, x.now, more)
	err = s.evaluateWeighed(&e.weighed, x.now, more, &e.opts)
	switch {
	case errors.Is(err, ErrLogFull) && e.live && e.ring == nil:
		e.full, e.write, e.units = true, true, more
	case errors.Is(err, ErrLogFull), errors.Is(err, ErrOverflow), errors.Is(err, ErrNoWindow): // a state that cannot hold it
		e.write = false
	default:
		return err
	}
	return nil
}
