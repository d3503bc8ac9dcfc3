package algo

import "errors"

// # Windows of calendars
//
// A policy's limit may count by the days, weeks, months, quarters or years of a zone. The
// engine knows no zones. The caller names the end of a new counter's window. The counter
// keeps that end as its deadline. So changed rules of a zone never move an open window,
// and neither followers nor snapshots need the rules.

// calendarAlgorithm is the algorithm of calendars' windows.
var calendarAlgorithm = algorithm{
	words: 1, countsOn: true, split: splitUnits, multiple: multipleUnits,
	scale: scaleCalendar, pressure: firstPressure, describe: describeCalendar,
	count: countCalendar, charged: calendarCharged, refund: refundCalendar, forcible: calendarForcible, over: calendarOver,
}

// ErrNoWindow is returned if a calendar's limit is charged and the call does not name the
// window that contains the time of the visit.
var ErrNoWindow = errors.New("no window of the calendar contains the present")

// Window is a window of a calendar that lasts until End, and the next one, which lasts
// until Next. Times are Unix ns. A visit to a key may be a little later than the call
// read the clock, and so fall into the next window.
type Window struct{ End, Next int64 }

// EndAt returns the end of the window that contains now.
func (w *Window) EndAt(now int64) (int64, error) {
	switch {
	case w == nil:
	case now < w.End:
		return w.End, nil
	case now < w.Next:
		return w.Next, nil
	}
	return 0, ErrNoWindow
}

// calendar checks a window of a calendar. It admits at most Limit units until the state's
// deadline. A new window lasts until the end of o.Window. State, options and results are
// as in fixed, and ErrNoWindow is possible too.
//
// Worst case: 2*Limit units around the end of a window, as for a fixed window.
func (r *Rule) calendar(st State, now, cost int64, o *Options, d *Decision) (next State, write bool, err error) {
	now = Clamp(now)
	used, end := calendarAt(st, now)
	count := used
	d.Allowed, d.OK, d.Limit = cost, true, r.Burst
	if cost > 0 {
		granted, room, err := r.admit(used, cost, o)
		if err != nil {
			return st, false, err
		}
		count += granted
		d.Allowed, d.OK = granted, granted > 0
		if used == 0 && d.OK {
			if end, err = o.Window.EndAt(now); err != nil {
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
	d.Remaining = max(r.Burst-count, 0)
	if count > 0 {
		d.ResetAfter = end - now
	}
	if o.Peek || count == used {
		return st, false, nil
	}
	if count == 0 {
		return State{}, true, nil
	}
	return State{Deadline: end, First: uint64(count)}, true, nil
}

// calendarAt returns the units that count at now, and when they stop counting. Units of a
// past window do not count.
func calendarAt(st State, now int64) (used, end int64) {
	if st.Deadline <= now {
		return 0, 0
	}
	return int64(min(st.First, MaxCount)), st.Deadline
}

// scaleCalendar is Rule.Scale for a calendar's window.
func scaleCalendar(r, old *Rule, st State, _ []byte, _ int64) (State, []byte) {
	st.First = scaled(min(st.First, MaxCount), uint64(r.Burst), uint64(old.Burst))
	return st, nil
}

func describeCalendar(_ *Rule, st State, _ []byte, now int64) (u Usage) {
	var end int64
	u.Current, end = calendarAt(st, now)
	u.Used = u.Current
	u.Fact("window_end_ms", end/1e6)
	u.Fact("current", u.Current)
	return u
}
