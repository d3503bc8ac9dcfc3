package calendar

import (
	"sync/atomic"
	"time"
)

// Calendar finds the window that contains an instant.
type Calendar struct {
	rules Rules
	zone  *time.Location
	// open is the window of the last call. A call in the same window costs a load and two
	// compares. The first call after the window's end finds the next window.
	open atomic.Pointer[span]
}

// Window is a window of a calendar. It lasts until End, and the window after it lasts until
// Next. Times are Unix ns.
type Window struct{ End, Next int64 }

// span is a window that has a begin.
type span struct {
	Window
	begin int64
}

// New returns the calendar of rules. It returns the errors of Rules.Check.
func New(r Rules) (*Calendar, error) {
	if err := r.Check(); err != nil {
		return nil, err
	}
	zone, err := Zone(r.Zone)
	return &Calendar{rules: r, zone: zone}, err
}

// Rules returns the rules of the calendar.
func (c *Calendar) Rules() Rules { return c.rules }

// Window returns the window that contains an instant, in Unix ns from 1970 to 2200. The
// caller must not change it.
func (c *Calendar) Window(now int64) *Window { return &c.at(now).Window }

// Around returns the begin and the end of the window that contains an instant.
func (c *Calendar) Around(now int64) (begin, end int64) {
	s := c.at(now)
	return s.begin, s.End
}

func (c *Calendar) at(now int64) *span {
	if s := c.open.Load(); s != nil && s.begin <= now && now < s.End {
		return s
	}
	s := c.find(now)
	c.open.Store(s)
	return s
}

// find returns the window that contains an instant. It begins its search with the window of
// the local date. After a clock was put back, the local date may be a day whose window is
// over. If several windows begin at the same instant, their days were left out by the zone,
// and they contain no instant.
func (c *Calendar) find(now int64) *span {
	second := floor(now, int64(time.Second))
	_, offset := time.Unix(second, 0).In(c.zone).Zone()
	i := c.rules.at(second + int64(offset))
	begin := c.begin(i)
	for begin > second {
		i--
		begin = c.begin(i)
	}
	end := c.begin(i + 1)
	for end <= second {
		i++
		begin, end = end, c.begin(i+1)
	}
	next := end
	for next <= end {
		i++
		next = c.begin(i + 1)
	}
	ns := int64(time.Second)
	return &span{Window{end * ns, next * ns}, begin * ns}
}

// farthest is more seconds than any zone is away from UTC.
const farthest = 2 * daySeconds

// begin returns when window i begins, in Unix seconds: the first instant at which the local
// time is the window's begin or later. It looks at one period after another in which the
// local clock runs evenly.
//
// After the end of a zone's table, ZoneBounds gives every year 365 days. So its bounds end
// on the last day of a leap year, although nothing changes then.
func (c *Calendar) begin(i int64) int64 {
	wall := c.rules.begin(i)
	for from := wall - farthest; ; {
		t := time.Unix(from, 0).In(c.zone)
		_, offset := t.Zone()
		found := max(from, wall-int64(offset))
		_, bound := t.ZoneBounds()
		end := bound.Unix()
		if end <= from {
			end = (floor(from, daySeconds) + 1) * daySeconds
		}
		if bound.IsZero() || found < end {
			return found
		}
		from = end
	}
}
