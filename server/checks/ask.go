package checks

import (
	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/policy"
	"github.com/headgate-io/headgate/server/command"
)

// answer is a decided check, in the terms of RL.CHECK's reply.
type answer struct {
	policy  *policy.Policy
	ok      bool
	reason  string
	binding int // position in applied, -1 for none
	delay   int64
	applied []policy.Applied
	each    []engine.Checked // in the order of applied
	hold    []byte           // nil for none
	begun   bool             // a block begins
}

// Reasons of answers. A call passes because its limits admit it, or because no limit
// applies to it. It is denied because a limit denies it or blocks its caller.
const (
	reasonOK      = "ok"
	reasonNone    = "none"
	reasonPenalty = "penalty"
)

// decide decides the call, after p was matched with it.
func (m *checkMemory) decide(call *command.Call, p *policy.Policy, o engine.CheckOptions, a *answer) error {
	*a = answer{policy: p, ok: m.verdict != policy.Denied, reason: reasonOK, binding: -1}
	switch m.verdict {
	case policy.Denied:
		a.reason = "deny"
	case policy.Allowed:
		a.reason = "allow"
	default:
		return m.ask(call, o, a)
	}
	// No limit applies, so nothing is counted. Only a session that decides may say so.
	_, err := call.Limits.Check(call.Now, nil, engine.CheckOptions{}, nil)
	return err
}

// ask decides the limits that apply.
func (m *checkMemory) ask(call *command.Call, o engine.CheckOptions, a *answer) error {
	a.applied = m.call.Applied
	n := len(a.applied)
	if cap(m.out) < 2*n {
		m.out = make([]engine.Checked, 2*policy.MaxLimits)
	}
	missing, err := m.collect(call, a.applied, &o)
	if err != nil {
		return err
	}
	checked, each := m.out[:len(m.checks)], m.out[len(m.checks):len(m.checks)+n]
	v, err := call.Limits.Check(call.Now, m.checks, o, checked)
	if err != nil {
		return err
	}
	a.ok, a.delay, a.each, a.begun = v.OK, v.Delay, checked, v.Begun
	if len(checked) < n {
		a.each = each
		m.fillIn(a, checked)
	}
	if v.Binding >= 0 {
		a.binding = m.at[v.Binding]
	}
	switch {
	case v.Penalty:
		a.reason = reasonPenalty
		if missing >= 0 { // no wait ends that
			a.each[a.binding].RetryAfter = algo.Never
		}
	case !a.ok:
		a.reason = "limit"
		// Of two limits that no wait satisfies, the first stands for the call.
		if missing >= 0 && (a.binding < 0 || a.each[a.binding].RetryAfter != algo.Never || missing < a.binding) {
			a.binding, a.reason = missing, "missing"
		}
	case n == 0:
		a.reason = reasonNone
	}
	return nil
}

// collect makes the checks of the limits that apply. missing is the first enforced limit
// that denies because the call lacks an attribute, -1 for none.
func (m *checkMemory) collect(call *command.Call, applied []policy.Applied, o *engine.CheckOptions) (missing int, err error) {
	m.checks, m.at, missing = m.checks[:0], m.at[:0], -1
	calendars := false
	for i := range applied {
		l := &applied[i]
		if l.Missing {
			if l.Numbers.Mode == policy.Enforce && missing < 0 {
				missing, o.Denied = i, !o.Force
			}
			continue
		}
		if !m.part.has(l.Limit) {
			continue
		}
		ready, ok := l.Numbers.Handle.(engine.Ready)
		if !ok {
			var err error
			if ready, err = ReadyFor(call.Sess, l.Limit, l.Numbers); err != nil {
				return missing, err
			}
		}
		cost := l.Cost
		if o.Force && l.Limit.Algorithm == policy.Concurrent { // nobody would give the slots back
			cost = 0
		}
		m.checks = append(m.checks, engine.Check{
			Key: l.Key, Hash: l.Hash, Limit: ready, Cost: cost, Wait: l.Limit.Wait, Debt: l.Limit.Debt,
			Mode: algo.Mode(l.Numbers.Mode), CountAll: l.Limit.CountAll, Penalty: (*engine.Penalty)(l.Limit.Penalty),
		})
		m.at = append(m.at, i)
		calendars = calendars || l.Limit.Calendar != nil
	}
	if calendars {
		for j, i := range m.at {
			m.checks[j].Window = Window(applied[i].Limit, call.Now)
		}
	}
	return missing, nil
}

// fillIn puts the results of the limits that were asked into their places. It adds those of
// limits that deny because the call lacks an attribute.
func (m *checkMemory) fillIn(a *answer, checked []engine.Checked) {
	clear(a.each)
	for j, i := range m.at {
		a.each[i] = checked[j]
	}
	for i := range a.applied {
		if l := &a.applied[i]; l.Missing {
			a.each[i].Decision = algo.Decision{Limit: EngineLimit(l.Limit, l.Numbers).Capacity(), RetryAfter: algo.Never}
			a.each[i].Over = a.ok
		}
	}
}
