package checks

import (
	"errors"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/policy"
	"github.com/headgate-io/headgate/server/command"
	"github.com/headgate-io/headgate/server/limits/wire"
)

// leaser takes the place of the session for one RL.LEASE of a policy: it has the session
// decide Need and give the lease.
type leaser struct {
	command.Limiter
	req  engine.PolicyLease
	sess *engine.Session
	got  engine.Leased
}

// Check implements command.Limiter.
func (l *leaser) Check(now int64, checks []engine.Check, o engine.CheckOptions, out []engine.Checked) (v engine.Verdict, err error) {
	if len(checks) == 0 { // a list decides, or no limit applies
		return l.Limiter.Check(now, checks, o, out)
	}
	v, l.got, err = l.sess.Leases().TakeAll(now, &l.req, checks, o, out)
	return v, err
}

// whole reports whether a unit of a lease is a unit of each limit that applies.
func (m *matched) whole() bool {
	for i := range m.call.Applied {
		if n := m.call.Applied[i].Numbers; n.CostBy != policy.NoAttribute || n.Cost != 1 {
			return false
		}
	}
	return true
}

var errLeaseSlots = errors.New("ERR a policy with a limit of concurrent calls cannot be leased: use RL.RESERVE")

// parseLease parses what follows the policy's name in an RL.LEASE or RL.RETURN.
func (a *checkArgs) parseLease(args [][]byte) error {
	l := wire.NewLeaseArgs()
	*a = checkArgs{pairs: a.pairs[:0], lease: &l}
	err := a.read(args)
	a.units = l.Need
	return err
}

// Lease is RL.LEASE of a policy. args begin with its name.
func (c *Checker) Lease(call *command.Call, args [][]byte) {
	m := memory(call)
	defer m.end()
	err := m.args.parseLease(args[1:])
	if err == nil {
		err = m.args.lease.Lends()
	}
	if err != nil {
		call.Error(err.Error())
		return
	}
	limits := call.Limits
	defer func() { call.Limits = limits }()
	set := c.setOf(call)
	for try := 0; ; try++ {
		p := c.matchNamed(call, m, set, args[0])
		if p == nil {
			return
		}
		if p.Slots {
			call.Error(errLeaseSlots.Error())
			return
		}
		if !c.homes.place(call, m, p) {
			return
		}
		if _, two := c.homes.splits(call, m); two { // nobody lends units of two groups
			at := len(call.Args) - len(args)
			c.inTwo(call, m, p, func(call *command.Call) twoCall {
				return twoCall{
					name:   call.Args[at],
					parse:  func(m *checkMemory) error { return m.args.parseLease(call.Args[at+1:]) },
					answer: func(m *checkMemory, a *answer) { c.answerLease(call, m, a, new(engine.Leased)) },
				}
			})
			return
		}
		l := leaser{Limiter: limits, sess: call.Sess, req: engine.PolicyLease{
			Policy: p.Name, ID: m.args.lease.ID, Request: m.args.lease.Request, Whole: m.whole(),
		}}
		if call.Degraded { // the failure policy decides what callers wait for
			l.req.Whole = false
		} else {
			call.Limits = &l
		}
		var a answer
		err := m.decide(call, p, engine.CheckOptions{Anew: try > 0}, &a)
		if errors.Is(err, engine.ErrStale) && try < 2 {
			set = c.book.Set()
			continue
		}
		if err != nil {
			m.fail(call, err)
			return
		}
		c.answerLease(call, m, &a, &l.got)
		return
	}
}

// answerLease replies a lease of a policy.
func (c *Checker) answerLease(call *command.Call, m *checkMemory, a *answer, got *engine.Leased) {
	got.Decision = none
	if a.binding >= 0 {
		got.Decision = a.each[a.binding].Decision
	}
	if got.OK = a.ok; !a.ok && a.binding < 0 {
		got.RetryAfter = algo.Never
	}
	got.Delay = a.delay
	if got.TTL == 0 {
		got.Granted = m.args.units * command.Truth(a.ok)
	}
	wire.WriteLease(call, got)
	call.Decided(a.ok)
	call.Sync = durability(a.policy, m.args.sync)
	if m.args.units > 0 && m.count(a) && c.denials.Listening() {
		c.tellDenials(call.Now, a)
	}
}

// GiveBack is RL.RETURN of a policy. args begin with its name.
func (c *Checker) GiveBack(call *command.Call, args [][]byte) {
	m := memory(call)
	defer m.end()
	err := m.args.parseLease(args[1:])
	if err == nil {
		err = m.args.lease.Returns()
	}
	if err != nil {
		call.Error(err.Error())
		return
	}
	m.args.units = 0
	p := c.matchNamed(call, m, c.setOf(call), args[0])
	if p == nil {
		return
	}
	if !c.homes.place(call, m, p) {
		return
	}
	if _, two := c.homes.splits(call, m); two {
		m.part = homePart
	}
	var o engine.CheckOptions
	if _, err = m.collect(call, m.call.Applied, &o); err != nil {
		m.fail(call, err)
		return
	}
	l := m.args.lease
	units, err := call.Sess.Leases().ReturnAll(call.Now, p.Name, l.ID, l.Seq, l.Held, m.checks)
	if err != nil {
		m.fail(call, err)
		return
	}
	call.Sync = durability(p, m.args.sync)
	call.W.Int(units)
}

// LeaseHeadless returns how an RL.LEASE of a policy is answered without a leader: as an
// RL.CHECK of Need.
func (c *Checker) LeaseHeadless(args [][]byte) command.Headless {
	set, _ := c.book.Current()
	p := set.Policy(args[0])
	if p == nil {
		return command.Headless{Failure: policy.FailClosed}
	}
	h := command.Headless{Failure: p.OnFailure, Backstop: p.Backstop, Prompt: true, NoShare: p.Ceilings && c.homes.Several()}
	var a checkArgs
	if wire.SaysHeadless(args[1:]) && a.parseLease(args[1:]) == nil {
		a.headless(&h)
	}
	return h
}

// LeaseSecrets returns the arguments of a lease of a policy that must not be shown.
func (c *Checker) LeaseSecrets(args [][]byte, from int, at []int) []int {
	l := wire.NewLeaseArgs()
	return c.hide(args[from], args, from+1, at, checkArgs{lease: &l})
}
