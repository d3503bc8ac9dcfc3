package engine

import (
	"slices"

	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/engine/reservation"
)

// settling is a settlement in progress, with all shards locked: plan, make room, write,
// answer. It is scratch space of a session.
type settling struct {
	s        *Session
	hold     []byte // the key of the record
	seen     []byte // of the record
	now      int64
	from, to reservation.State
	how      Settlement
	each     []settlingLimit
	st       checking // whose methods work on what is weighed

	// decisions, costs and windows belong to the answer.
	decisions      []algo.Decision
	costs, windows []int64
}

// begin prepares the settlement of r to the state to.
func (x *settling) begin(now int64, r *reservation.Record, to reservation.State) {
	x.now, x.from, x.to, x.st.moved = now, r.State, to, false
	x.each = slices.Grow(x.each[:0], len(r.Limits))[:len(r.Limits)]
	clear(x.each)
}

// forget drops borrowed references.
func (x *settling) forget() {
	clear(x.each)
	x.how, x.hold = Settlement{}, nil
}

// settlingLimit is the settlement of one limit.
type settlingLimit struct {
	weighed
	// cost is the real cost of the call.
	cost int64
	// refunds is set if the plan ends a slot or gives back refund.
	refunds bool
	refund  algo.Refund
	// full is set if a list has no room for an additional entry for the charge of units.
	full  bool
	units int64
	// over is by how many units the limit is overused, and window that limit's window.
	over, window int64
	// taken is a limit that was interned for the charge, with a reference.
	taken *interned
}

// settle plans and writes all limits. If there is no room for an additional charge,
// nothing is changed.
func (x *settling) settle(r *reservation.Record) error {
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

// endSlots ends the slots of a reservation whose charges are settled. It does nothing if
// the reservation ends because its time is over.
func (x *settling) endSlots(r *reservation.Record) error {
	if x.to == reservation.Released {
		return nil
	}
	for i := range r.Limits {
		l, e := &r.Limits[i], &x.each[i]
		if !l.Slots() {
			continue
		}
		e.key, e.hash = l.Key, l.Hash
		if x.planEnd(e); e.write {
			if err := x.write(e); err != nil {
				return err
			}
		}
	}
	return nil
}

// write writes the plan of one limit.
func (x *settling) write(e *settlingLimit) error {
	sh := x.s.e.table.At(e.hash)
	if !e.refunds && !e.full {
		return x.st.storeMarked(x.s, &e.weighed, sh, x.now)
	}
	if e.ent, e.found = sh.Find(e.hash, e.key); !e.found { // evicted to make room for another
		return nil
	}
	x.st.moved = true // if nothing is left of it
	sh.Touch(e.ent)
	switch {
	case e.it.Limit.Algorithm == algo.PolicySlots:
		endHolder(sh, e.ent, x.now, holderOf(x.hold))
	case e.full:
		e.ent.SetDeadline(max(e.ent.Deadline(), e.it.Force(e.ent.State(), x.now, e.units)))
	default:
		var deadline int64
		var left bool
		if e.leased {
			out := x.s.Leases().outstanding(sh, e.hash, e.key, x.now)
			deadline, left = out.Give(&e.it.Rule, &e.refund, &e.mark, e.ent.State(), x.now)
		} else {
			deadline, left = e.it.Give(&e.refund, &e.mark, e.ent.State())
		}
		if !left {
			sh.Delete(e.ent)
			return nil
		}
		e.ent.SetDeadline(deadline)
	}
	return nil
}

// tell sets e.d to what the limit now holds.
func (x *settling) tell(l *reservation.Held, e *settlingLimit) {
	s, sh := x.s, x.s.e.table.At(e.hash)
	ent, found := sh.Find(e.hash, e.key)
	own := (*interned)(nil)
	algorithm := l.Limit.Algorithm
	if e.taken != nil { // an additional charge, maybe under another limit
		algorithm = e.taken.Limit.Algorithm
	}
	if found && !ent.Expired(x.now) {
		if it := s.e.limits.get(ent.Meta()); it.Limit.Algorithm == algorithm {
			own = it
		}
	}
	e.d = algo.Decision{}
	var st algo.State
	p := plan{hash: e.hash, key: e.key, ent: ent, found: own != nil, live: own != nil}
	if own == nil {
		if own = e.taken; own == nil {
			own = s.e.limits.acquireReplicated(l.Limit)
			e.taken = own
		}
	} else {
		st = loaded(s, &p, own, x.now)
	}
	p.it, e.window = own, own.Window
	if err := s.evaluate(&p, st, x.now, 0, &algo.Options{Peek: true}); err == nil {
		e.d = p.d
		e.over = own.Over(st, p.list(), x.now)
	}
}

// answer returns the answer of the settlement.
func (x *settling) answer(r *reservation.Record) reservation.Settled {
	a := reservation.Settled{State: x.to, Version: r.Version, Applied: r.Applied, Limits: r.Limits}
	x.decisions, x.costs, x.windows = x.decisions[:0], x.costs[:0], x.windows[:0]
	rooms, at := int64(0), -1
	for i := range x.each {
		e := &x.each[i]
		x.decisions, x.costs, x.windows = append(x.decisions, e.d), append(x.costs, e.cost), append(x.windows, e.window)
		if r.Limits[i].Mode != algo.Enforce {
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
		a.RetryAfter, a.Delay = 0, 0 // it has passed
	}
	return a
}
