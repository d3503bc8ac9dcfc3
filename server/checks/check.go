package checks

import (
	"errors"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/policy"
	"github.com/headgate-io/headgate/server/command"
)

// ErrChanging is the error while policies are being changed: the caller tries again.
var ErrChanging = errors.New("TRYAGAIN policies are being changed")

// check is RL.CHECK. It reads the arguments (args.go), unless that was done ahead
// (prepared.go), finds the policy, matches the call with it (match.go), has the limits
// that apply decided (ask.go), replies (reply.go), and counts (tally.go).
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
		c.hold(call, m, set, p)
		return
	}
	for try := 0; ; try++ {
		if !ready {
			if p = c.match(call, m, set); p == nil {
				return
			}
		}
		if p.Slots { // what it takes is held
			c.hold(call, m, set, p)
			return
		}
		var a answer
		err := m.decide(call, p, engine.CheckOptions{Peek: m.args.peek, Anew: try > 0, Warm: ready}, &a)
		ready = false
		if errors.Is(err, engine.ErrStale) && try < 2 {
			// It was decided under a later version. If that is not here, it is
			// none any more: the record was taken back.
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

// setOf returns the policies that a call is decided by.
func (c *Checker) setOf(call *command.Call) *policy.Set {
	if call.Degraded { // what a follower has taken over is enough
		set, _ := c.book.Current()
		return set
	}
	return c.book.Set()
}

// match matches the parsed call with its policy in a set. On an error it has replied,
// and returns nil.
func (c *Checker) match(call *command.Call, m *checkMemory, set *policy.Set) *policy.Policy {
	p := set.Policy(call.Args[1])
	if p == nil {
		c.refuseUnknown(call)
		return nil
	}
	if err := m.match(p, call.Now); err != nil {
		m.fail(call, err)
		return nil
	}
	return p
}

// answer replies a decided call, says how durable the reply is to be, counts it, and
// tells who listens of a denial.
func (c *Checker) answer(call *command.Call, m *checkMemory, a *answer) {
	a.write(call)
	call.Decided(a.ok)
	call.Sync = durability(a.policy, m.args.sync)
	if !m.args.peek && m.count(a) && c.denials.Listening() {
		c.tellDenials(call.Now, a)
	}
}

// badCall is an error of the call itself, of its attributes or costs.
type badCall struct{ error }

func (m *checkMemory) fail(call *command.Call, err error) {
	var bad badCall
	switch {
	case errors.As(err, &bad):
		call.Error("ERR " + bad.Error())
	case errors.Is(err, engine.ErrStale):
		call.Error(ErrChanging.Error())
	case errors.Is(err, engine.ErrNotIsolated): // the policy has other keys than when they were held
		call.Err = err
		call.Error(ErrChanging.Error())
	default:
		call.Fail(err)
	}
}

// refuseUnknown refuses a check of a policy that there is not.
func (c *Checker) refuseUnknown(call *command.Call) {
	c.unknown.Add(1)
	call.Error(c.book.Missing(call.Args[1]))
}

// durability is what the reply waits for: what the policy says, or the call, if
// that is more.
func durability(p *policy.Policy, asked command.SyncMode) command.SyncMode {
	switch {
	case p.Durability == policy.Sync || asked == command.SyncCommit:
		return command.SyncCommit
	case p.Durability == policy.Async && asked == command.SyncDefault:
		return command.SyncNone
	}
	return asked
}
