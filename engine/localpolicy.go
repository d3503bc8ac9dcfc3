package engine

import (
	"errors"

	"github.com/headgate-io/headgate/engine/algo"
)

// Check is Session.Check on this node's shares of the enforced limits. Other limits are
// left out, as if they were full. A denied call charges nothing. A blocked caller stays
// blocked; strikes are not counted. It returns the errors of Session.Check and
// ErrNotLocal. ErrNotLocal also replaces ErrFull.
func (l *Local) Check(now int64, checks []Check, o CheckOptions, out []Checked) (Verdict, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.overlay == nil {
		return Verdict{}, ErrNotLocal
	}
	if v, blocked := l.e.blockedHere(now, checks, out); blocked {
		return v, nil
	}
	l.overlay.tidyLimits() // the overlay has no Run
	v, err := l.check(now, checks, o, out)
	if errors.Is(err, ErrFull) {
		err = ErrNotLocal
	}
	return v, err
}

// check is Check with mu held.
func (l *Local) check(now int64, checks []Check, o CheckOptions, out []Checked) (Verdict, error) {
	l.session.Use(0)
	shares := make([]Check, len(checks))
	for i := range checks {
		c, share := &checks[i], &shares[i]
		*share = *c
		if c.Mode != algo.Enforce {
			share.Mode = algo.Off
			continue
		}
		share.Window = l.e.windowOf(now, c)
		limit, err := l.policyShare(now, c, share.Window)
		if err != nil {
			return Verdict{}, err
		}
		if share.Limit, err = l.overlay.Ready(limit); err != nil {
			return Verdict{}, err
		}
		defer l.overlay.Release(share.Limit)
		share.Hash, share.CountAll, share.Penalty = l.overlay.table.Hash(c.Key), false, nil
	}
	v, err := l.session.Check(now, shares, o, out)
	if err != nil {
		return Verdict{}, err
	}
	for i := range checks {
		c, d := &checks[i], &out[i]
		limit := c.Limit.Limit()
		if c.Mode != algo.Enforce {
			d.OK, d.Limit, d.Remaining = true, limit.Capacity(), limit.Capacity()
		} else if !d.OK && d.RetryAfter == algo.Never && limit.Limit > 0 && c.Cost-max(c.Debt, 0) <= limit.Capacity() {
			return Verdict{}, ErrNotLocal
		}
	}
	if v.OK && !o.Peek {
		l.admitted++
		for i := range checks {
			if c := &checks[i]; c.Mode == algo.Enforce {
				l.notePolicy(now, c, shares[i].Window)
			}
		}
	}
	return v, nil
}

// notePolicy is note for a policy's limit. Units of a calendar's window are charged only
// while that window is open. mu must be held.
func (l *Local) notePolicy(now int64, c *Check, w *algo.Window) {
	seg := Segment{Key: c.Key, Limit: c.Limit.Limit()}
	if seg.Limit.Algorithm == algo.PolicyCalendar && c.Cost > 0 {
		s := l.spending(spender{string(seg.Key), seg.Limit})
		if s.deadline <= now {
			s.units = 0
		}
		s.deadline, _ = w.EndAt(now) // Session.Check has asked for it
	}
	l.note(seg, c.Cost)
}

// policyShare returns the overlay's limit for a policy's limit. At the first use it makes
// the counter. mu must be held.
func (l *Local) policyShare(now int64, c *Check, w *algo.Window) (algo.Limit, error) {
	seg := Segment{Key: c.Key, Limit: c.Limit.Limit()}
	if l.spent[spender{string(seg.Key), seg.Limit}] == nil && len(l.order) >= localKeys {
		return algo.Limit{}, ErrNotLocal
	}
	share, voters, err := l.divide(seg)
	if err != nil {
		return algo.Limit{}, err
	}
	if known, _ := l.session.Exists(now, c.Key); known { // its own engine is never sealed
		return share, nil
	}
	left, err := l.leftOf(now, c)
	if err != nil {
		return algo.Limit{}, err
	}
	if used := share.Capacity() - left/voters; used > 0 && share.Limit > 0 {
		if _, err := l.session.Decide(now, c.Key, share, used, &algo.Options{Force: true, Window: w}); err != nil {
			return algo.Limit{}, err
		}
	}
	return share, nil
}

// leftOf returns what remains of a policy's limit in the replicated table, even if that
// is sealed. It returns an error if the counter is of a later edit than this node knows.
func (l *Local) leftOf(now int64, c *Check) (int64, error) {
	w := weighed{plan: plan{it: c.Limit.it, hash: c.Hash, key: c.Key}}
	sh := l.e.table.At(c.Hash)
	sh.Lock()
	defer sh.Unlock()
	st, err := l.look.find(&w, sh, now)
	if err == nil {
		w.st = st
		err = l.look.evaluate(&w.plan, w.st, now, 0, &algo.Options{Peek: true})
	}
	if errors.Is(err, ErrStale) {
		err = ErrNotLocal
	}
	return w.d.Remaining, err
}

// chargePolicy charges a policy's counter with units admitted without a leader. It
// returns ErrStale if the units are void: an edit has voided earlier use, or their
// calendar's window has ended.
func (s *Session) chargePolicy(now int64, c *Charge) error {
	if c.Limit.Algorithm == algo.PolicyCalendar && c.Deadline <= now {
		return nil
	}
	r, err := s.e.Ready(c.Limit)
	if err != nil {
		return err
	}
	defer s.e.Release(r)
	check := [...]Check{{Key: c.Key, Hash: s.e.table.Hash(c.Key), Limit: r, Cost: c.Units, CountAll: true, Window: &algo.Window{End: c.Deadline}}}
	var out [1]Checked
	if _, err = s.Check(now, check[:], CheckOptions{Denied: true}, out[:]); err == nil {
		err = out[0].Err
	}
	return err
}

// windowOf returns the window for a check without a leader. It is the window of the
// counter in the table, even a sealed one, while that is open; otherwise the window of
// the check.
func (e *Engine) windowOf(now int64, c *Check) *algo.Window {
	l := c.Limit.Limit()
	if l.Algorithm != algo.PolicyCalendar {
		return c.Window
	}
	sh := e.table.At(c.Hash)
	sh.Lock()
	defer sh.Unlock()
	ent, found := sh.Find(c.Hash, c.Key)
	if !found || ent.Deadline() <= now {
		return c.Window
	}
	if was := e.limits.get(ent.Meta()).Limit; was.Algorithm != algo.PolicyCalendar || was.Resets != l.Resets {
		return c.Window
	}
	w := algo.Window{End: ent.Deadline()}
	switch own := c.Window; {
	case own == nil:
	case own.End > w.End:
		w.Next = own.End
	default:
		w.Next = own.Next
	}
	return &w
}
