package checks

import (
	"bytes"
	"errors"
	"slices"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/policy"
	"github.com/headgate-io/headgate/server/command"
)

// # Descriptors
//
// RL.DESCRIPTORS asks a policy as Envoy asks its rate limit service: with a list of
// descriptors, decided in one step. Under a policy with descriptors each one counts,
// whether or not the request passes. Under a policy with limits the descriptors are checks,
// and either all pass or none is charged (descriptorlimits.go).

// descriptorMemory is what one RL.DESCRIPTORS after the other uses.
type descriptorMemory struct {
	args    descriptorArgs
	matcher policy.Descriptor
	ruling  ruling

	checks []engine.Check
	units  []int64
	counts []engine.Counted
	// at holds for each descriptor the position of its counter among checks.
	at []int

	limits limitsMemory
}

// ruling is a decided request.
type ruling struct {
	over     bool
	binding  int // position of the descriptor that stands for the request, -1 for none
	reason   string
	version  uint64
	statuses []status
}

// status is the result of one descriptor.
type status struct {
	over     bool
	limited  bool // limit is set
	limit    policy.AskedLimit
	name     string
	left     int64
	reset    int64 // ns
	retry    int64 // ns, or algo.Never
	flags    statusFlag
	metadata string
}

// statusFlag is a set of words.
type statusFlag uint8

const (
	flagUnlimited statusFlag = 1 << iota
	flagShadow
	flagQuota
	flagExceeded
	flagReplaced
	flagUnmatched
)

var statusFlags = [...]string{"unlimited", "shadow", "quota", "exceeded", "replaced", "unmatched"}

// unlimitedLeft is the dialect's number of remaining requests where no limit applies.
const unlimitedLeft = 1<<32 - 1

// descriptors is RL.DESCRIPTORS.
func (c *Checker) descriptors(call *command.Call) {
	m := memory(call)
	if m.asking == nil {
		m.asking = new(descriptorMemory)
	}
	x := m.asking
	defer x.end()
	if err := x.args.parse(call.Args[1:]); err != nil {
		call.Error(err.Error())
		return
	}
	for try := 0; ; try++ {
		p := c.setOf(call).Policy(call.Args[1])
		if p == nil {
			c.refuseUnknown(call, call.Args[1])
			return
		}
		if !c.homes.oneGroup(call, p, errTwoDescriptors) || c.homes.Several() && !c.homes.placeAll(call, m, p) {
			return
		}
		err := x.decide(call, p, engine.CheckOptions{Peek: x.args.options.peek, Anew: try > 0})
		if errors.Is(err, engine.ErrStale) && try < 2 { // see Checker.check
			continue
		}
		if err != nil {
			m.fail(call, err)
			return
		}
		call.Decided(!x.ruling.over)
		switch k := attachedTo(p); {
		case x.args.options.peek:
		case x.ruling.reason == reasonNone:
			k.lists.of(m.lane).missing.Add(1)
		case k.rules != nil:
			if k.rules.count(x, m.lane) && c.denials.Listening() {
				c.tellRules(call.Now, p, x)
			}
		default:
			c.countEach(call.Now, m, x, p)
		}
		call.Sync = durability(p, x.args.options.sync)
		x.ruling.write(call)
		return
	}
}

// end drops the references to the client's input.
func (x *descriptorMemory) end() {
	clear(x.args.asked)
	clear(x.checks)
	clear(x.ruling.statuses)
	x.matcher.End()
	x.limits.end()
}

// decide decides the parsed request on a policy.
func (x *descriptorMemory) decide(call *command.Call, p *policy.Policy, o engine.CheckOptions) error {
	x.ruling = ruling{binding: -1, reason: reasonOK, version: p.Version, statuses: x.ruling.statuses[:0]}
	if p.Descriptors() == nil {
		if err := x.decideLimits(call, p, o); err != nil {
			return err
		}
		x.unlimited()
		return nil
	}
	if err := x.match(call, p); err != nil {
		return err
	}
	if call.Degraded {
		if err := x.answerAlone(call, o); err != nil {
			return err
		}
	} else if err := call.Sess.CountWindows(call.Now, x.checks, x.units, o, x.counts); err != nil {
		return err
	}
	x.rule()
	x.unlimited()
	return nil
}

// unlimited sets the reason of a request to which no limit applies.
func (x *descriptorMemory) unlimited() {
	r := &x.ruling
	if r.reason == reasonOK && !slices.ContainsFunc(r.statuses, func(s status) bool { return s.flags&flagUnmatched == 0 }) {
		r.reason = reasonNone
	}
}

// match matches the descriptors and gathers their counters. The hits of descriptors with
// one counter are added.
func (x *descriptorMemory) match(call *command.Call, p *policy.Policy) error {
	x.matcher.Begin(p, x.args.hits, call.Now)
	for i := range x.args.asked {
		if err := x.matcher.Add(&x.args.asked[i]); err != nil {
			return badCall{err}
		}
	}
	if err := x.matcher.Finish(); err != nil {
		return badCall{err}
	}
	x.checks, x.units, x.at = x.checks[:0], x.units[:0], x.at[:0]
	for i := range x.matcher.Matched {
		m := &x.matcher.Matched[i]
		if m.Outcome != policy.Counted {
			x.at = append(x.at, -1)
			continue
		}
		at := x.counterOf(m)
		if at < 0 {
			ready, ok := m.Numbers.Handle.(engine.Ready)
			if !ok { // the numbers come from the request or from a SCALE
				var err error
				if ready, err = call.Sess.Ready(EngineLimit(p.Descriptors().Limit(), m.Numbers)); err != nil {
					return err
				}
			}
			at = len(x.checks)
			x.checks = append(x.checks, engine.Check{Key: m.Key, Hash: m.Hash, Limit: ready, Mode: algo.Enforce, TooMuch: m.Limit.Requests == 0})
			x.units = append(x.units, 0)
			if r := m.Rule; r != nil && (r.Shadow || r.Quota) {
				x.checks[at].Mode = algo.Shadow
			}
		}
		x.at = append(x.at, at)
		x.units[at] = added(x.units[at], m.Hits)
	}
	x.counts = append(x.counts[:0], make([]engine.Counted, len(x.checks))...)
	return nil
}

// counterOf returns the position of a counter that an earlier descriptor has named, or -1.
func (x *descriptorMemory) counterOf(m *policy.Matched) int {
	for i := range x.checks {
		if c := &x.checks[i]; c.Hash == m.Hash && bytes.Equal(c.Key, m.Key) {
			return i
		}
	}
	return -1
}

// maxHits bounds hits, so that a sum of two cannot overflow.
const maxHits = 1 << 62

// added returns the sum of two numbers of hits, bounded on both sides.
func added(a, b int64) int64 {
	return min(max(a+min(max(b, -maxHits), maxHits-1), -maxHits), maxHits-1)
}

// rule computes the ruling from the counts. Each of several descriptors with one counter
// gets the count after its own hits.
func (x *descriptorMemory) rule() {
	r := &x.ruling
	quotas, exceeded := 0, 0
	for i := range x.matcher.Matched {
		m := &x.matcher.Matched[i]
		s := status{flags: flagsOf(m)}
		if m.Rule != nil {
			s.metadata = m.Rule.Metadata
		}
		switch m.Outcome {
		case policy.Open:
			s.left, s.name = unlimitedLeft, m.Rule.Name
		case policy.Counted:
			x.settle(&s, m, i)
		}
		if s.flags&flagQuota != 0 {
			quotas++
			if s.flags&flagExceeded != 0 {
				exceeded++
			}
		}
		r.statuses = append(r.statuses, s)
	}
	least := int64(-1)
	for i := range r.statuses {
		s := &r.statuses[i]
		s.over = s.flags&flagExceeded != 0 && s.flags&flagShadow == 0 && (s.flags&flagQuota == 0 || exceeded == quotas)
		switch {
		case s.over:
			r.over, r.reason, r.binding, least = true, "limit", i, 0
		case s.limited && !r.over && (least < 0 || s.left < least):
			r.binding, least = i, s.left
		}
		if s.over {
			s.metadata = ""
		} else {
			s.retry = 0
		}
	}
}

// flagsOf returns the flags that follow from a descriptor's match alone.
func flagsOf(m *policy.Matched) (f statusFlag) {
	switch m.Outcome {
	case policy.Unmatched:
		return flagUnmatched
	case policy.Replaced:
		return flagReplaced
	case policy.Open:
		return flagUnlimited
	}
	switch r := m.Rule; {
	case r == nil:
	case r.Shadow:
		f = flagShadow
	case r.Quota:
		f = flagQuota
	}
	return f
}

// settle fills in the status of the i-th descriptor from its counter.
func (x *descriptorMemory) settle(s *status, m *policy.Matched, i int) {
	at := x.at[i]
	c := &x.counts[at]
	hits := int64(0)
	for j := range i + 1 {
		if x.at[j] == at {
			hits = added(hits, x.matcher.Matched[j].Hits)
		}
	}
	count := min(max(c.Before+hits, 0), maxHits-1)
	s.limited, s.limit, s.reset = true, m.Limit, c.ResetAfter
	if m.Rule != nil {
		s.name = m.Rule.Name
	}
	s.left = max(m.Limit.Requests-count, 0)
	if m.Hits < 0 || count <= m.Limit.Requests {
		return
	}
	s.flags |= flagExceeded
	if s.retry = c.ResetAfter; m.Hits > m.Limit.Requests {
		s.retry = algo.Never
	}
}

// answerAlone lets the failure policy decide the counters one by one, as it decides limits.
func (x *descriptorMemory) answerAlone(call *command.Call, o engine.CheckOptions) error {
	for i := range x.checks {
		c := x.checks[i]
		limit := c.Limit.Limit()
		c.Cost, c.Mode = max(x.units[i], 0), algo.Enforce
		none := c.TooMuch
		c.TooMuch = false
		x.counts[i] = engine.Counted{ResetAfter: limit.Period - call.Now%limit.Period}
		if none { // the limit is 0 requests
			x.counts[i].Units = c.Cost
			continue
		}
		var out [1]engine.Checked
		if _, err := call.Limits.Check(call.Now, []engine.Check{c}, o, out[:]); err != nil {
			return err
		}
		x.counts[i].Units = limit.Limit - out[0].Remaining
		if !out[0].OK {
			x.counts[i].Units = max(limit.Limit, x.counts[i].Units) + 1
		}
		x.counts[i].Before = max(x.counts[i].Units-c.Cost, 0)
	}
	return nil
}
