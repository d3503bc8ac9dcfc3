package oracle

import (
	"fmt"
	"math"
	"slices"
	"sort"
	"time"

	"github.com/headgate-io/headgate/internal/askers"
)

// Leased is a limit that processes spend leases of, and what became of it. Times are those of askers.Now.
type Leased struct {
	Epoch   int64 // of the times in findings
	Units   int64 // a bucket's, per Period and as its capacity
	Period  time.Duration
	Callers []LeaseCaller
	Sights  []LeaseSight
	Events  []LeaseEvent // by time
	Losses  []Loss       // of leaders that had not replicated all
}

// LeaseCaller is a process and what it has written.
type LeaseCaller struct {
	*askers.Log
	Plain bool // it asks for each call
}

// LeaseSight is what a server said of the limit at some time from From to To: what is left and what is out of it.
type LeaseSight struct {
	askers.Span
	Limit, Left, Out int64
}

// LeaseEvent is something that was done. What is found is ascribed to the last one before it.
type LeaseEvent struct {
	Name string      // as in the table of docs/leases.md; empty: it belongs to the one before
	At   askers.Span // when it was done
	// Units is the limit from then on, which is full. 0: it goes on as it was.
	Units int64
	// Forgets: the server has forgotten what was out.
	Forgets bool
	// Lost is how many units were with the process that was harmed.
	Lost int64
}

// LeaseResult is what was found about events of one name.
type LeaseResult struct {
	Name         string
	Times        int
	Extra, Bound int64 // units that were admitted beyond the limit, and how many may be
	Unseen       int64 // most units that holders had, and the server did not know, at one time
	Lost         int64 // units that were with harmed processes
}

// leaseShare is the part of a limit that may be out: the server's default.
const leaseShare = 4

// Leases judges a leased limit.
//
//   - spent: what was admitted is within burst + rate x interval, over every interval.
//   - left: what is left and what is out never exceed the limit together, whatever a server is asked.
//   - out: what processes hold, due or not, a server knows to be out.
//
// The second and the third say that spent and outstanding units never exceed the budget together. A lost leader may take
// along what it had granted, and not replicated: that bounds the first and the third. A key that is deleted forgets what
// is out of it.
func Leases(l *Leased) (Finding, []LeaseResult) {
	f := Finding{Check: "leases", OK: true}
	var results []LeaseResult
	at := make([]int, len(l.Events)) // the result of each event
	for i, e := range l.Events {
		name := e.Name
		if name == "" {
			at[i] = at[i-1]
			continue
		}
		at[i] = slices.IndexFunc(results, func(r LeaseResult) bool { return r.Name == name })
		if at[i] < 0 {
			at[i] = len(results)
			results = append(results, LeaseResult{Name: name})
		}
		results[at[i]].Times++
		results[at[i]].Lost += e.Lost
	}
	// of returns the event that what is found at a time is ascribed to.
	of := func(t int64) int {
		return max(sort.Search(len(l.Events), func(i int) bool { return l.Events[i].At.From > t })-1, 0)
	}
	extra, bound := make([]int64, len(l.Events)), make([]int64, len(l.Events))
	for _, loss := range l.Losses {
		bound[of(loss.To)] += l.atRisk(loss)
	}
	for i, e := range l.Events {
		if e.Forgets {
			bound[i] += l.Units / leaseShare
		}
	}
	admitted := l.spent(func(end, units int64) { extra[of(end)] += units })
	unseen, looked, most := l.unseen()
	for i, e := range l.Events {
		r := &results[at[i]]
		r.Extra, r.Bound = r.Extra+extra[i], r.Bound+bound[i]
		if extra[i] > bound[i] {
			f.violate("%s at %.3f s: %d units were admitted beyond the limit, at most %d may be", r.Name, seconds(e.At.From-l.Epoch), extra[i], bound[i])
		}
	}
	for _, u := range unseen {
		i := of(u.at)
		r := &results[at[i]]
		r.Unseen = max(r.Unseen, u.units)
		if u.units > bound[i] {
			f.violate("%s at %.3f s: holders have %d units at %.3f s that the server does not know to be out, at most %d may be", r.Name, seconds(l.Events[i].At.From-l.Epoch), u.units, seconds(u.at-l.Epoch), bound[i])
		}
	}
	for _, s := range l.Sights {
		if s.Left > 0 && s.Left+s.Out > s.Limit {
			f.violate("at %.3f s %d units are left and %d are out of %d", seconds(s.From-l.Epoch), s.Left, s.Out, s.Limit)
		}
	}
	var units, allowed int64
	for i := range extra {
		units, allowed = units+extra[i], allowed+bound[i]
	}
	grants := 0
	for _, c := range l.Callers {
		grants += len(c.Grants)
	}
	f.Text = fmt.Sprintf("%d units admitted to %d processes with %d requests for leases, %d beyond the limit (bound %d); %d looks at what was out, %d units at most",
		admitted, len(l.Callers), grants, units, allowed, looked, most)
	return f, results
}

// spent tells missed of each unit that no bucket had, and returns how many were admitted. What was admitted while the
// limit was made full or changed is left out.
func (l *Leased) spent(missed func(end, units int64)) (admitted int) {
	var calls []askers.Span
	for _, c := range l.Callers {
		calls = append(calls, c.Admitted...)
	}
	slices.SortFunc(calls, func(a, b askers.Span) int { return int(a.From - b.From) })
	begin := int64(math.MinInt64)
	reign := func(units, end int64) {
		b := newBucket(units, int64(l.Period), 0)
		b.missed = missed
		for _, c := range calls {
			if c.From < begin || c.To > end {
				continue
			}
			b.advance(c.From)
			b.claim(c.To, 1)
		}
		b.advance(math.MaxInt64)
	}
	units := l.Units
	for _, e := range l.Events {
		if e.Units > 0 {
			reign(units, e.At.From)
			units, begin = e.Units, e.At.To
		}
	}
	reign(units, math.MaxInt64)
	return len(calls)
}

// atRisk is the most that holders and callers may have of what was lost with a leader. With the reply to a renewal goes
// the longer life of what was held.
func (l *Leased) atRisk(loss Loss) (units int64) {
	in := func(s askers.Span) bool { return s.From <= loss.To && s.To >= loss.From }
	for _, c := range l.Callers {
		for _, g := range c.Grants {
			if in(g.Span) && !g.Failed {
				units += g.Held + g.Granted + g.Refill
			}
		}
		if c.Plain {
			for _, s := range c.Admitted {
				if in(s) {
					units++
				}
			}
		}
	}
	return min(units, l.Units)
}

// surplus is a number of units at a time.
type surplus struct{ at, units int64 }

// unseen returns, of each look at what is out, how many units holders have beyond that; how many looks tell anything;
// and how many units holders had at most.
func (l *Leased) unseen() (found []surplus, looked int, most int64) {
	for _, s := range l.Sights {
		if slices.ContainsFunc(l.Events, func(e LeaseEvent) bool {
			return e.Forgets && e.At.From <= s.To && s.From <= e.At.To+int64(leaseTTL)
		}) {
			continue
		}
		var held int64
		for _, c := range l.Callers {
			held += Holds(c.Log, s.Span)
		}
		if held > 0 {
			looked++
		}
		most = max(most, held)
		if held > s.Out {
			found = append(found, surplus{s.From, held - s.Out})
		}
	}
	return found, looked, most
}

const (
	// leaseTTL is that of the processes' leases.
	leaseTTL = 2 * time.Second
	// unsure is how long before a request was noted it may have been made: what was spent since then may be part of what
	// it said.
	unsure = 200 * time.Millisecond
)

// Holds returns how many units a process certainly has, due or not, at all times of a span. A call that waited for a request
// counts twice, as a call and as what the request needed.
func Holds(c *askers.Log, s askers.Span) int64 {
	i := sort.Search(len(c.Grants), func(i int) bool { return c.Grants[i].From > s.To }) - 1
	if i < 0 {
		return 0
	}
	g := &c.Grants[i]
	if g.Failed || g.To > s.From || g.TTL == 0 || g.From+int64(g.TTL-g.TTL/clockSlack) <= s.To {
		return 0
	}
	if slices.ContainsFunc(c.Returned, func(r askers.Span) bool { return r.To >= g.From && r.From <= s.To }) {
		return 0
	}
	units := g.Held + g.Granted + g.Refill
	if g.OK {
		units -= g.Need
	}
	from := sort.Search(len(c.Admitted), func(i int) bool { return c.Admitted[i].To > g.From-int64(unsure) })
	for _, a := range c.Admitted[from:] {
		if a.From >= s.To {
			break
		}
		units--
	}
	return max(units, 0)
}
