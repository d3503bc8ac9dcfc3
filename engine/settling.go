package engine

import (
	"errors"
	"slices"
)

// settling is one settlement under way, with all shards locked: plan, make room,
// write, tell. It is scratch of a session.
type settling struct {
	s        *Session
	hold     []byte // the key of the record
	seen     []byte // of the record
	now      int64
	from, to HoldState
	how      Settlement
	each     []settlingLimit
	st       checking // whose methods work on what is weighed

	// decisions, costs and windows are those of what is answered.
	decisions      []Decision
	costs, windows []int64
}

// begin begins to make r what it is to become, or is asked to.
func (x *settling) begin(now int64, r *Reservation, to HoldState) {
	x.now, x.from, x.to, x.st.moved = now, r.State, to, false
	x.each = slices.Grow(x.each[:0], len(r.Limits))[:len(r.Limits)]
	clear(x.each)
}

// forget drops what was lent.
func (x *settling) forget() {
	clear(x.each)
	x.how, x.hold = Settlement{}, nil
}

// settlingLimit is what becomes of one limit.
type settlingLimit struct {
	weighed
	// cost is what the call costs now.
	cost int64
	// refunds: what is planned gives something back, or ends a slot; pair is the
	// place of the pair of a log that does, and units how much of it.
	refunds bool
	pair    int
	units   int64
	// full: a log has no room for a pair of its own for the charge.
	full bool
	// over is by how many units more than all is used, and window that of the limit
	// that tells so.
	over, window int64
	// taken is a reference to a limit that was interned for the charge.
	taken *interned
}

// settle plans and writes all limits. Without room for what is charged in addition
// nothing is changed.
func (x *settling) settle(r *Reservation) error {
	defer func() {
		for i := range x.each {
			if it := x.each[i].taken; it != nil {
				it.refs.Add(-1)
			}
		}
	}()
	for i := range r.Limits {
		if err := x.plan(&r.Limits[i], &x.each[i]); err != nil {
			return err
		}
	}
	for i := range x.each {
		e := &x.each[i]
		if !e.write || e.refunds || e.full {
			continue
		}
		if err := x.st.reserve(x.s, &e.weighed, x.now); err != nil {
			for j := range i {
				x.unreserve(&x.each[j])
			}
			return err
		}
	}
	for i := range x.each {
		if e := &x.each[i]; e.write {
			if err := x.write(e); err != nil {
				return err
			}
		}
	}
	for i := range r.Limits {
		x.tell(&r.Limits[i], &x.each[i])
	}
	return nil
}

func (x *settling) unreserve(e *settlingLimit) {
	if !e.created {
		return
	}
	sh := x.s.e.table.At(e.hash)
	if ent, ok := sh.Find(e.hash, e.key); ok {
		sh.Delete(ent)
	}
}

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
		next, given := c.refundBucket(st.bucket(), e.mark.back, x.now, excess)
		e.write = given != span{}
		e.mark.back = e.mark.back.add(given)
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

// endSlots ends the slots of a reservation whose charges are settled, if somebody
// settles it, and not its end.
func (x *settling) endSlots(r *Reservation) error {
	if x.to == HoldReleased {
		return nil
	}
	for i := range r.Limits {
		l, e := &r.Limits[i], &x.each[i]
		if !l.slots() {
			continue
		}
		e.key, e.hash = l.Key, l.hash
		if x.planEnd(e); e.write {
			if err := x.write(e); err != nil {
				return err
			}
		}
	}
	return nil
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

// write writes what is planned of one limit.
func (x *settling) write(e *settlingLimit) error {
	sh := x.s.e.table.At(e.hash)
	if !e.refunds && !e.full {
		return x.st.storeMarked(x.s, &e.weighed, sh, x.now)
	}
	if e.ent, e.found = sh.Find(e.hash, e.key); !e.found { // evicted for the room of another
		return nil
	}
	x.st.moved = true // if nothing is left of it
	sh.Touch(e.ent)
	ring := logRing(e.ent.State())
	switch {
	case e.it.limit.Algorithm == PolicySlots:
		endLease(sh, e.ent, x.now, leaseOf(x.hold))
	case e.full:
		ring.forceLog(x.now, e.units)
		e.ent.SetDeadline(max(e.ent.Deadline(), clampInstant(x.now)+e.it.period))
	case e.it.decides == Log:
		newest, left := ring.refundLog(e.pair, e.units)
		if !left {
			sh.Delete(e.ent)
			return nil
		}
		e.ent.SetDeadline(newest + e.it.period)
	case e.words == 0:
		sh.Delete(e.ent)
	default:
		e.ent.SetDeadline(e.next.deadline)
		e.ent.SetWord(0, e.next.first)
		if e.words == 2 {
			e.ent.SetWord(1, e.next.second)
		}
		e.mark.set(e.ent, e.it.decides)
	}
	return nil
}

// tell makes e.d what the limit holds now.
func (x *settling) tell(l *Reserved, e *settlingLimit) {
	s, sh := x.s, x.s.e.table.At(e.hash)
	ent, found := sh.Find(e.hash, e.key)
	own := (*interned)(nil)
	algorithm := l.Limit.Algorithm
	if e.taken != nil { // charged in addition, maybe under another one
		algorithm = e.taken.limit.Algorithm
	}
	if found && !ent.Expired(x.now) {
		if it := s.e.limits.get(ent.Meta()); it.limit.Algorithm == algorithm {
			own = it
		}
	}
	e.d = Decision{}
	var st state
	p := plan{ent: ent, found: own != nil, live: own != nil}
	if own == nil {
		if own = e.taken; own == nil {
			own = s.e.limits.acquireReplicated(l.Limit)
			e.taken = own
		}
	} else {
		st = load(ent)
	}
	p.it, e.window = own, own.window
	if err := s.evaluate(&p, st, x.now, 0, &Options{Peek: true}); err == nil {
		e.d = p.d
		e.over = own.over(st, p.state(), x.now)
	}
}

// answer is what the settlement says.
func (x *settling) answer(r *Reservation) Settled {
	a := Settled{State: x.to, Version: r.Version, Applied: r.Applied, Limits: r.Limits}
	x.decisions, x.costs, x.windows = x.decisions[:0], x.costs[:0], x.windows[:0]
	rooms, at := int64(0), -1
	for i := range x.each {
		e := &x.each[i]
		x.decisions, x.costs, x.windows = append(x.decisions, e.d), append(x.costs, e.cost), append(x.windows, e.window)
		if r.Limits[i].Mode != Enforce {
			continue
		}
		a.Over = max(a.Over, e.over)
		if calls := e.d.Remaining / max(e.cost, 1); at < 0 || calls < rooms {
			at, rooms = i, calls
		}
	}
	a.Each, a.Costs, a.Windows = x.decisions, x.costs, x.windows
	if at >= 0 {
		a.Name, a.Decision = r.Limits[at].Name, x.each[at].d
	}
	return a
}
