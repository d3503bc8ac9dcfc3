package checks

import (
	"errors"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/policy"
	"github.com/headgate-io/headgate/server/command"
)

// ErrChanging is the error while policies are being changed. The caller tries again.
var ErrChanging = errors.New("TRYAGAIN policies are being changed")

// check is RL.CHECK. It reads the arguments (args.go), unless that was done ahead
// (prepared.go). Then it finds the policy, matches the call with it (match.go), decides the
// limits that apply (ask.go), replies (reply.go) and counts (tally.go).
func (c *Checker) check(call *command.Call) {
	m := memory(call)
	defer m.end()
	set := c.setOf(call)
	p := m.take(call, set)
	ready := p != nil
	if !ready {
		if err := m.args.parseNamed(call.Args[2:], false); err != nil {
			call.Error(err.Error())
			return
		}
	}
	if m.args.id != nil {
		if !c.namedInTwo(call, m, set) {
			c.hold(call, m, set, p)
		}
		return
	}
	for try := 0; ; try++ {
		if !ready {
			if p = c.match(call, m, set); p == nil {
				return
			}
		}
		if !c.homes.place(call, m, p) {
			return
		}
		if _, two := c.homes.splits(call, m); two {
			c.inTwo(call, m, p, c.checkInTwo)
			return
		}
		if p.Slots && !m.args.force { // it holds the slots that it takes
			c.hold(call, m, set, p)
			return
		}
		var a answer
		err := m.decide(call, p, engine.CheckOptions{Peek: m.args.peek, Force: m.args.force, Anew: try > 0, Warm: ready}, &a)
		ready = false
		if errors.Is(err, engine.ErrStale) && try < 2 {
			// The call was decided under a later version. If that is still missing here,
			// its record was taken back.
			set = c.book.Set()
			continue
		}
		if err != nil {
			m.fail(call, err)
			return
		}
		c.answer(call, m, &a)
		return
	}
}

// namedInTwo runs a call with an ID that needs two groups, or that a list denies although an
// earlier call may have needed them. It returns false for other calls. After an error, which
// it has replied, it returns true.
func (c *Checker) namedInTwo(call *command.Call, m *checkMemory, set *policy.Set) bool {
	p := set.Policy(call.Args[1])
	if p == nil || !p.Ceilings || !c.homes.Several() || call.Degraded {
		return false
	}
	if c.match(call, m, set) == nil || !c.homes.place(call, m, p) {
		return true
	}
	if _, two := c.homes.splits(call, m); !two && m.verdict != policy.Denied {
		return false
	}
	c.inTwo(call, m, p, c.checkInTwo)
	return true
}

// checkInTwo is an RL.CHECK of two groups.
func (c *Checker) checkInTwo(call *command.Call) twoCall {
	return twoCall{
		name:   call.Args[1],
		parse:  func(m *checkMemory) error { return m.args.parseNamed(call.Args[2:], false) },
		answer: func(m *checkMemory, a *answer) { c.answer(call, m, a) },
	}
}

// setOf returns the policies that decide a call.
func (c *Checker) setOf(call *command.Call) *policy.Set {
	if call.Degraded { // what a follower has taken over is enough
		set, _ := c.book.Current()
		return set
	}
	return c.book.Set()
}

// match matches the parsed call with its policy in a set. After an error, which it has
// replied, it returns nil.
func (c *Checker) match(call *command.Call, m *checkMemory, set *policy.Set) *policy.Policy {
	return c.matchNamed(call, m, set, call.Args[1])
}

// matchNamed is match with the policy of a name.
func (c *Checker) matchNamed(call *command.Call, m *checkMemory, set *policy.Set, name []byte) *policy.Policy {
	p := set.Policy(name)
	if p == nil {
		c.refuseUnknown(call, name)
		return nil
	}
	if err := m.match(p, call.Now); err != nil {
		m.fail(call, err)
		return nil
	}
	return p
}

// answer replies a decided call, sets the durability of the reply, counts the call and
// reports a denial as an event.
func (c *Checker) answer(call *command.Call, m *checkMemory, a *answer) {
	a.write(call)
	call.Decided(a.ok)
	call.Sync = durability(a.policy, m.args.sync)
	if !m.args.peek && m.count(a) && c.denials.Listening() {
		c.tellDenials(call.Now, a)
	}
}

// badCall is an error in the call's own attributes or costs.
type badCall struct{ error }

func (m *checkMemory) fail(call *command.Call, err error) {
	var bad badCall
	switch {
	case errors.As(err, &bad):
		call.Error("ERR " + bad.Error())
	case errors.Is(err, engine.ErrStale):
		call.Error(ErrChanging.Error())
	case errors.Is(err, engine.ErrNotIsolated): // the policy has other keys than those that were isolated
		call.Err = err
		call.Error(ErrChanging.Error())
	default:
		call.Fail(err)
	}
}

// refuseUnknown refuses a check of a policy that does not exist.
func (c *Checker) refuseUnknown(call *command.Call, name []byte) {
	if c.homes.Several() && c.book.Behind() {
		call.Error(ErrChanging.Error())
		return
	}
	c.unknown.Add(1)
	call.Error(c.book.Missing(name))
}

// durability returns the stricter of what the policy and the call ask for.
func durability(p *policy.Policy, asked command.SyncMode) command.SyncMode {
	switch {
	case p.Durability == policy.Sync || asked == command.SyncCommit:
		return command.SyncCommit
	case p.Durability == policy.Async && asked == command.SyncDefault:
		return command.SyncNone
	}
	return asked
}
