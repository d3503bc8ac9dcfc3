package checks_test

import (
	"slices"

	"github.com/headgate-io/headgate/internal/rig"
)

// The model of holds, names and windows: slow, and written from what is promised, not
// from how it is done. Times are whole seconds. A counter of a window or a log is the
// list of its charges, so that what is given back is what was never charged.

// histLimit is a limit of a history's policy.
type histLimit struct {
	name, algorithm string
	amount, period  int64 // units in so many seconds
	capacity        int64
	all             bool // one counter, not one by user
	shadow          bool
	byTokens        bool  // the cost is the attribute tokens
	each            int64 // units a call, if it is not
	secondsPerUnit  int64 // of a bucket
}

func (l *histLimit) bucket() bool { return l.algorithm == "token" || l.algorithm == "leaky" }

// histCharge is one charge.
type histCharge struct{ at, units int64 }

// histCounter is what a limit has counted of a caller.
type histCounter struct {
	charges []*histCharge // by time
}

// used is in seconds of a bucket, else in units.
func (c *histCounter) used(l *histLimit, now int64) int64 {
	if l.bucket() {
		full := int64(0)
		for _, x := range c.charges {
			full = max(full, x.at) + x.units*l.secondsPerUnit
		}
		return max(full-now, 0)
	}
	window := func(t int64) int64 { return t / l.period }
	var current, previous, lately int64
	for _, x := range c.charges {
		switch {
		case window(x.at) == window(now):
			current += x.units
		case window(x.at) == window(now)-1:
			previous += x.units
		}
		if x.at > now-l.period {
			lately += x.units
		}
	}
	switch l.algorithm {
	case "log":
		return lately
	case "sliding":
		return current + (previous*(l.period-now%l.period)+l.period-1)/l.period
	}
	return current
}

// units is what is used, in units, rounded up.
func (c *histCounter) units(l *histLimit, now int64) int64 {
	if l.bucket() {
		return (c.used(l, now) + l.secondsPerUnit - 1) / l.secondsPerUnit
	}
	return c.used(l, now)
}

func (c *histCounter) remaining(l *histLimit, now int64) int64 {
	return max(l.capacity-c.units(l, now), 0)
}

// fits reports whether there is room for a cost. wait is the time until there is, or -1 for
// never. known is false if the model does not say.
func (c *histCounter) fits(l *histLimit, now, cost int64) (ok bool, wait int64, known bool) {
	if cost == 0 {
		return true, 0, true
	}
	if cost > l.capacity {
		return false, -1, true
	}
	if l.bucket() {
		wait = c.used(l, now) + (cost-l.capacity)*l.secondsPerUnit
		return wait <= 0, max(wait, 0), true
	}
	if c.used(l, now)+cost <= l.capacity {
		return true, 0, true
	}
	switch l.algorithm {
	case "fixed":
		return false, l.period - now%l.period, true
	case "log":
		for _, x := range c.charges { // they are by time
			if end := x.at + l.period; end > now && c.used(l, end)+cost <= l.capacity {
				return false, end - now, true
			}
		}
	}
	return false, 0, false
}

// histHeld is what a hold has charged of one limit.
type histHeld struct {
	l      *histLimit
	c      *histCounter
	cost   int64
	charge *histCharge
}

// charge takes units, whether there is room or not.
func (c *histCounter) charge(l *histLimit, now, cost int64) histHeld {
	h := histHeld{l: l, c: c, cost: cost, charge: &histCharge{now, cost}}
	c.charges = append(c.charges, h.charge)
	return h
}

// refund makes units as if they had not been charged.
func (h *histHeld) refund(units int64) { h.charge.units -= units }

// histHold is a hold, or the record of a check by name.
type histHold struct {
	id, name    string // name is empty without one
	asked       string // what a repeat has to say
	first       rig.Checked
	plain       bool
	ends, known int64 // known is 0 while it is open
	charges     bool
	state       string // reserved, expired, committed, cancelled
	held        []histHeld
	answer      rig.Settled
}

// histWorld is a policy and all that has happened.
type histWorld struct {
	limits   []histLimit
	share    int64
	ttl      int64
	keep     int64
	charged  bool // what becomes of a hold that nobody settles
	now      int64
	counters map[string]*histCounter // by limit and user
	holds    []*histHold
}

func (w *histWorld) counter(l *histLimit, user string) *histCounter {
	if l.all {
		user = ""
	}
	key := l.name + " " + user
	if w.counters[key] == nil {
		w.counters[key] = new(histCounter)
	}
	return w.counters[key]
}

// histVerdict is what one limit says of a call.
type histVerdict struct {
	l                     *histLimit
	c                     *histCounter
	cost, remaining, wait int64
	ok, known             bool
}

// histCall is a call of a caller: units of limits that count calls, and tokens, -1 for
// none.
type histCall struct {
	user          string
	units, tokens int64
	holds         bool
}

// decide is RL.CHECK and RL.RESERVE. name is empty where the model does not say which
// limit stands for the call, and wait is -2 then.
func (w *histWorld) decide(call histCall) (allowed bool, name string, wait int64, each []histVerdict, held []histHeld) {
	allowed = true
	for i := range w.limits {
		l := &w.limits[i]
		v := histVerdict{l: l, c: w.counter(l, call.user), cost: l.each * call.units}
		if l.byTokens {
			if v.cost = call.tokens; v.cost < 0 {
				continue
			}
			if call.units == 0 { // a call of nothing looks
				v.cost = 0
			}
		}
		if v.ok, v.wait, v.known = v.c.fits(l, w.now, v.cost); call.holds && !l.shadow && v.cost > l.capacity*w.share/100 {
			v.ok, v.wait, v.known = false, -1, true
		}
		allowed = allowed && (v.ok || l.shadow)
		each = append(each, v)
	}
	for i := range each {
		v := &each[i]
		if allowed && v.ok && v.cost > 0 {
			held = append(held, v.c.charge(v.l, w.now, v.cost))
		}
		v.remaining = v.c.remaining(v.l, w.now)
	}
	at, known := -1, true
	for i := range each {
		v := &each[i]
		if v.l.shadow || !allowed && v.ok {
			continue
		}
		known = known && v.known
		longer := func(a, b int64) bool { return uint64(a) > uint64(b) } // -1 is longest
		switch {
		case at < 0,
			allowed && v.remaining/max(v.cost, 1) < each[at].remaining/max(each[at].cost, 1),
			!allowed && longer(v.wait, each[at].wait):
			at = i
		}
	}
	switch {
	case at < 0:
		return allowed, "", 0, each, held
	case !known && each[at].wait != -1:
		return allowed, "", -2, each, held
	}
	return allowed, each[at].l.name, each[at].wait, each, held
}

// settle is RL.COMMIT or RL.CANCEL. It returns the final cost of each limit. tokens and units
// below 0 are not given to RL.COMMIT.
func (w *histWorld) settle(h *histHold, commit bool, units, tokens int64) (costs []int64) {
	w.end(h)
	for i := range h.held {
		x := &h.held[i]
		cost := int64(0)
		if commit {
			cost = x.cost
			if x.l.byTokens && tokens >= 0 {
				cost = tokens
			} else if !x.l.byTokens && units >= 0 {
				cost = units * x.l.each
			}
		}
		charged := x.cost
		if h.state == "expired" && !h.charges { // it was released
			charged = 0
		}
		switch {
		case cost > charged:
			x.c.charge(x.l, w.now, cost-charged)
		case cost < charged:
			x.refund(charged - cost)
		}
		costs = append(costs, cost)
	}
	return costs
}

// end ends a hold whose time is over.
func (w *histWorld) end(h *histHold) {
	if h.state != "reserved" || w.now < h.ends {
		return
	}
	h.state, h.known = "expired", w.now+w.keep
	if !h.charges {
		for i := range h.held {
			h.held[i].refund(h.held[i].cost)
		}
	}
}

// forgets drops the holds that are no longer known.
func (w *histWorld) forgets() {
	w.holds = slices.DeleteFunc(w.holds, func(h *histHold) bool { return h.known != 0 && h.known < w.now })
}

// reset is RL.POLICY RESET of a user, or of all.
func (w *histWorld) reset(user string) {
	gone := make(map[*histCounter]bool)
	for i := range w.limits {
		if l := &w.limits[i]; user == "" || !l.all {
			for _, u := range []string{"", "u1", "u2"} {
				if key := l.name + " " + u; w.counters[key] != nil && (user == "" || u == user) {
					gone[w.counters[key]] = true
					delete(w.counters, key)
				}
			}
		}
	}
	w.holds = slices.DeleteFunc(w.holds, func(h *histHold) bool {
		if h.plain || h.state != "reserved" && h.state != "expired" {
			return false
		}
		return user == "" || slices.ContainsFunc(h.held, func(x histHeld) bool { return gone[x.c] })
	})
}

// over is by how many units the enforced limit is over that a hold has put the deepest
// into debt.
func (w *histWorld) over(h *histHold) (over int64) {
	for i := range h.held {
		if x := &h.held[i]; !x.l.shadow {
			over = max(over, x.c.units(x.l, w.now)-x.l.capacity)
		}
	}
	return over
}

// edge reports whether a time is one at which something ends just now, which the model
// does not decide.
func (w *histWorld) edge(now int64) bool {
	return slices.ContainsFunc(w.holds, func(h *histHold) bool { return h.known == now })
}
