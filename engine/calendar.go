package engine

import (
	"errors"

	"github.com/headgate-io/headgate/shard"
)

// # Windows of calendars
//
// A policy's limit may count by the days, weeks, months, quarters or years of a
// zone. The engine knows no zones: who asks says when the window ends in which a
// new counter would be, and the counter keeps that end as its deadline until it
// is over. So other rules of a zone never move a window that is open, and neither
// followers nor snapshots have to know any.

// ErrNoWindow is returned for a charge of a calendar's limit that does not say
// which window contains the time of the visit.
var ErrNoWindow = errors.New("no window of the calendar contains the present")

// Window is a window of a calendar and the one behind it: it lasts until End, and
// that one until Next. Times are Unix ns. A visit to a key may be a little later
// than the call's clock reading, and so in the next window.
type Window struct{ End, Next int64 }

// endAt returns when the window ends that contains now.
func (w *Window) endAt(now int64) (int64, error) {
	switch {
	case w == nil:
	case now < w.End:
		return w.End, nil
	case now < w.Next:
		return w.Next, nil
	}
	return 0, ErrNoWindow
}

// windowOf returns the window that a check without a leader is charged in: that of
// the counter in the table, sealed as it is, while it is open, and the check's own
// one behind it.
func (e *Engine) windowOf(now int64, c *Check) *Window {
	l := c.Limit.Limit()
	if l.Algorithm != PolicyCalendar {
		return c.Window
	}
	sh := e.table.At(c.Hash)
	sh.Lock()
	defer sh.Unlock()
	ent, found := sh.Find(c.Hash, c.Key)
	if !found || ent.Deadline() <= now {
		return c.Window
	}
	if was := e.limits.get(ent.Meta()).limit; was.Algorithm != PolicyCalendar || was.Resets != l.Resets {
		return c.Window
	}
	w := Window{End: ent.Deadline()}
	switch own := c.Window; {
	case own == nil:
	case own.End > w.End:
		w.Next = own.End
	default:
		w.Next = own.Next
	}
	return &w
}

// calendar checks a window of a calendar: at most Limit units until the state's
// deadline, or in a new window until the end of o.Window. State, options and
// results are as in fixed; ErrNoWindow too.
//
// Worst case: as of a fixed window, 2*Limit units around the end of one.
func (r *rule) calendar(st state, now, cost int64, o *Options, d *Decision) (next state, write bool, err error) {
	if o == nil {
		o = &noOptions
	}
	now = clampInstant(now)
	used, end := calendarAt(st, now)
	count := used
	d.Allowed, d.OK, d.Limit = cost, true, r.burst
	if cost > 0 {
		granted, room, err := r.admit(used, cost, o)
		if err != nil {
			return st, false, err
		}
		count += granted
		d.Allowed, d.OK = granted, granted > 0
		if used == 0 && d.OK {
			if end, err = o.Window.endAt(now); err != nil {
				return st, false, err
			}
		}
		if !d.OK {
			d.RetryAfter = Never
			if room >= 0 {
				d.RetryAfter = end - now
			}
		}
	} else {
		count = lower(used, cost)
	}
	d.Remaining = max(r.burst-count, 0)
	if count > 0 {
		d.ResetAfter = end - now
	}
	if o.Peek || count == used {
		return st, false, nil
	}
	if count == 0 {
		return state{}, true, nil
	}
	return state{deadline: end, first: uint64(count)}, true, nil
}

// calendar plans a decision on a calendar's limit.
func (p *plan) calendar(st state, now, cost int64, o *Options) (err error) {
	if p.it.decides != PolicyCalendar {
		return ErrWrongType
	}
	p.next, p.write, err = p.it.calendar(st, now, cost, o, &p.d)
	if p.write {
		p.words = 0
		if p.next.first != 0 {
			p.words = 1
		}
	}
	return err
}

// calendarAt returns what counts of a state at now, and until when. Nothing does
// of a window that is over.
func calendarAt(st state, now int64) (used, end int64) {
	if st.deadline <= now {
		return 0, 0
	}
	return int64(min(st.first, maxCount)), st.deadline
}

// countCalendar is the state of a window to which a call of cost, 1 or more, is
// charged, whether it fits or not.
func (r *rule) countCalendar(st state, now, cost int64, w *Window) (state, error) {
	now = clampInstant(now)
	used, end := calendarAt(st, now)
	if used == 0 {
		var err error
		if end, err = w.endAt(now); err != nil {
			return st, err
		}
	}
	return state{deadline: end, first: uint64(used + min(cost, maxCount-used))}, nil
}

func calendarPressure(r *rule, ent shard.Entry, _ int64) uint32 {
	return share(ent.Word(0), uint64(r.burst))
}

func describeCalendar(x *Explanation, _ *rule, ent shard.Entry, now int64) {
	var end int64
	x.Current, end = calendarAt(load(ent), now)
	x.Used = x.Current
	x.fact("window_end_ms", end/1e6)
	x.fact("current", x.Current)
}
