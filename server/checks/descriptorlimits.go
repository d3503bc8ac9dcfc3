package checks

import (
	"bytes"
	"errors"
	"time"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/policy"
	"github.com/headgate-io/headgate/policy/calendar"
	"github.com/headgate-io/headgate/server/command"
)

// Errors of requests that a policy with limits cannot answer.
var (
	errRefund     = errors.New("hits below 0 need a policy with descriptors")
	errOwnLimit   = errors.New("a limit in the request needs a policy with descriptors")
	errSlotPolicy = errors.New("the policy limits concurrent calls: use RL.CHECK or RL.RESERVE, not RL.DESCRIPTORS")
)

// limitsMemory is what RL.DESCRIPTORS uses for a policy with limits: its descriptors become
// checks.
type limitsMemory struct {
	each []*matched
	// at holds, descriptor by descriptor, the positions of its limits among the checks of
	// the step.
	at  []int
	out []engine.Checked
}

// match turns each descriptor into a check of its own.
func (y *limitsMemory) match(p *policy.Policy, a *descriptorArgs, now int64) error {
	if p.Slots {
		return badCall{errSlotPolicy}
	}
	for i := range a.asked {
		d := &a.asked[i]
		if i == len(y.each) {
			y.each = append(y.each, &matched{call: policy.NewCall()})
		}
		m := y.each[i]
		switch m.args = (checkArgs{pairs: append(m.args.pairs[:0], d.Entries...), units: max(a.hits, 1)}); {
		case d.HasHits && d.Hits < 0:
			return badCall{errRefund}
		case d.Limit.Unit != policy.NoUnit:
			return badCall{errOwnLimit}
		case d.HasHits:
			m.args.units = d.Hits
		}
		if err := m.match(p, now); err != nil {
			return err
		}
	}
	return nil
}

// keptCalls is how many calls stay allocated for the next request.
const keptCalls = 8

// end drops the references to the client's input.
func (y *limitsMemory) end() {
	for _, m := range y.each {
		m.end()
	}
	if len(y.each) > keptCalls {
		clear(y.each[keptCalls:])
		y.each = y.each[:keptCalls]
	}
}

// decideLimits decides the request on a policy with limits. Either the checks of all
// descriptors pass, or nothing is charged.
func (x *descriptorMemory) decideLimits(call *command.Call, p *policy.Policy, o engine.CheckOptions) error {
	y := &x.limits
	if err := y.match(p, &x.args, call.Now); err != nil {
		return err
	}
	if err := x.gather(call, &o); err != nil {
		return err
	}
	y.out = append(y.out[:0], make([]engine.Checked, len(x.checks))...)
	v, err := call.Limits.Check(call.Now, x.checks, o, y.out)
	if err != nil {
		return err
	}
	x.ruling.over = !v.OK
	x.tellLimits(&v)
	return nil
}

// gather makes the checks of the step. Descriptors that reach the same counter have one
// check together, with the largest of their costs.
func (x *descriptorMemory) gather(call *command.Call, o *engine.CheckOptions) error {
	y := &x.limits
	x.checks, y.at = x.checks[:0], y.at[:0]
	for _, m := range y.each[:len(x.args.asked)] {
		switch m.verdict {
		case policy.Denied:
			o.Denied = true
			continue
		case policy.Allowed:
			continue
		}
		for i := range m.call.Applied {
			l := &m.call.Applied[i]
			if l.Missing {
				o.Denied = o.Denied || l.Numbers.Mode == policy.Enforce
				y.at = append(y.at, -1)
				continue
			}
			at := x.checkOf(l)
			if at < 0 {
				ready, err := ReadyFor(call.Sess, l.Limit, l.Numbers)
				if err != nil {
					return err
				}
				at = len(x.checks)
				x.checks = append(x.checks, engine.Check{
					Key: l.Key, Hash: l.Hash, Limit: ready, Wait: l.Limit.Wait, Debt: l.Limit.Debt, Mode: algo.Mode(l.Numbers.Mode),
					CountAll: l.Limit.CountAll, Penalty: (*engine.Penalty)(l.Limit.Penalty), Window: Window(l.Limit, call.Now),
				})
			}
			x.checks[at].Cost = max(x.checks[at].Cost, l.Cost)
			y.at = append(y.at, at)
		}
	}
	return nil
}

// checkOf returns the position of the check of a counter that an earlier descriptor has
// reached, or -1.
func (x *descriptorMemory) checkOf(l *policy.Applied) int {
	for i := range x.checks {
		if c := &x.checks[i]; c.Hash == l.Hash && bytes.Equal(c.Key, l.Key) {
			return i
		}
	}
	return -1
}

// tellLimits fills in the status of each descriptor, from the limit that stands for it.
// That is the denying limit with the longest wait, else the limit with the least left.
func (x *descriptorMemory) tellLimits(v *engine.Verdict) {
	r, y := &x.ruling, &x.limits
	at := y.at
	least := int64(-1)
	for i, m := range y.each[:len(x.args.asked)] {
		var s status
		switch m.verdict {
		case policy.Denied:
			s.over, s.retry = true, algo.Never
			r.reason = "deny"
		case policy.Allowed:
			s.flags, s.left = flagUnlimited, unlimitedLeft
			if r.reason == reasonOK && !r.over {
				r.reason = "allow"
			}
		default:
			n := len(m.call.Applied)
			reason := x.tellDescriptor(&s, m.call.Applied, at[:n])
			at = at[n:]
			if s.over && r.reason != "deny" {
				r.reason = reason
			}
		}
		switch {
		case s.over:
			r.binding, least = i, 0
		case s.limited && !r.over && (least < 0 || s.left < least):
			r.binding, least = i, s.left
		}
		r.statuses = append(r.statuses, s)
	}
	if v.Penalty {
		r.reason = reasonPenalty
	}
}

// tellDescriptor fills in the status of one descriptor. applied are its limits, and at the
// positions of their checks. It returns the reason of a denial.
func (x *descriptorMemory) tellDescriptor(s *status, applied []policy.Applied, at []int) (reason string) {
	binding := -1
	var stands algo.Decision
	for i := range applied {
		l := &applied[i]
		if l.Numbers.Mode != policy.Enforce {
			continue
		}
		d := algo.Decision{Limit: EngineLimit(l.Limit, l.Numbers).Capacity(), RetryAfter: algo.Never}
		if at[i] >= 0 {
			d = x.limits.out[at[i]].Decision
		}
		switch {
		case binding < 0:
		case stands.OK != d.OK:
			if d.OK {
				continue
			}
		case d.OK && d.Remaining >= stands.Remaining, !d.OK && !longer(d.RetryAfter, stands.RetryAfter):
			continue
		}
		binding, stands = i, d
	}
	if binding < 0 {
		if len(applied) == 0 {
			s.flags = flagUnmatched
		}
		return reasonOK
	}
	l := &applied[binding]
	s.limited, s.name, s.left, s.reset = true, l.Limit.Name, max(0, stands.Remaining), stands.ResetAfter
	s.limit = askedOf(l.Numbers.Rate.Per, refill(l), stands.Limit)
	if s.over = !stands.OK; !s.over {
		return reasonOK
	}
	s.flags |= flagExceeded
	s.retry = stands.RetryAfter
	if at[binding] < 0 {
		return "missing"
	}
	return "limit"
}

// longer reports whether wait a is longer than wait b.
func longer(a, b int64) bool { return b != algo.Never && (a == algo.Never || a > b) }

// askedOf converts a capacity in a window to the dialect's form. The window is a unit of
// the calendar or in ns. If it is not a whole number of seconds, the unit is left out.
func askedOf(per calendar.Period, window, capacity int64) policy.AskedLimit {
	l := policy.AskedLimit{Requests: capacity, Multiplier: 1}
	switch per {
	case calendar.Day:
		l.Unit = policy.UnitDay
	case calendar.Week:
		l.Unit = policy.UnitWeek
	case calendar.Month:
		l.Unit = policy.UnitMonth
	case calendar.Quarter:
		l.Unit, l.Multiplier = policy.UnitMonth, 3
	case calendar.Year:
		l.Unit = policy.UnitYear
	default:
		if window == 0 || window%int64(time.Second) != 0 {
			return l
		}
		for u := policy.UnitDay; u >= policy.UnitSecond; u-- {
			if ns, _ := u.Period(1); window%ns == 0 {
				l.Unit, l.Multiplier = u, window/ns
				break
			}
		}
	}
	return l
}

// limitKeys is descriptorKeys for a policy with limits.
func (x *descriptorMemory) limitKeys(p *policy.Policy, now int64) (keys [][]byte) {
	if x.limits.match(p, &x.args, now) != nil {
		return nil
	}
	for _, m := range x.limits.each {
		for i := range m.call.Applied {
			if key := m.call.Applied[i].Key; key != nil {
				keys = append(keys, key)
			}
		}
	}
	return keys
}

// countEach counts a decided request for the limits of each descriptor, and reports denials
// as events.
func (c *Checker) countEach(now int64, m *checkMemory, x *descriptorMemory, p *policy.Policy) {
	own := m.matched
	defer func() { m.matched = own }()
	at := x.limits.at
	for _, each := range x.limits.each[:len(x.args.asked)] {
		a := answer{policy: p, ok: !x.ruling.over, reason: x.ruling.reason, binding: -1}
		if each.verdict == policy.Decide {
			a.applied = each.call.Applied
			for _, i := range at[:len(a.applied)] {
				c := engine.Checked{}
				if i >= 0 {
					c = x.limits.out[i]
				}
				a.each = append(a.each, c)
			}
			at = at[len(a.applied):]
		}
		m.matched = each
		if m.count(&a) && c.denials.Listening() {
			c.tellDenials(now, &a)
		}
	}
}
