package checks

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"math/bits"
	"slices"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/engine/reservation"
	"github.com/headgate-io/headgate/policy"
	"github.com/headgate-io/headgate/server/command"
)

// HoldPrefix begins the keys of holds. After it comes the name that clients use for the
// hold: `<policy>;<id>`.
const HoldPrefix = "@+"

// reserver takes the place of the session for one RL.RESERVE. It decides the limits and, if
// it has a key, has the session make the hold.
type reserver struct {
	command.Limiter
	call   *command.Call
	m      *checkMemory
	p      *policy.Policy
	req    engine.Reserve
	random [15]byte // of the last id
}

// begin makes r decide a call by a policy, with the memory of the previous one.
func (r *reserver) begin(limits command.Limiter, call *command.Call, m *checkMemory, p *policy.Policy) {
	*r = reserver{Limiter: limits, call: call, m: m, p: p, req: engine.Reserve{Limits: r.req.Limits[:0], Plain: !m.args.holds}}
}

// remember sets what the record of the call says, if one is made. If named is set, one is
// made under m.key, and asked is the call's fingerprint.
func (r *reserver) remember(named bool, asked reservation.Fingerprint) {
	m, q := r.m, &r.req
	q.TTL, q.Keep, q.Charges = r.p.Hold.TTL, r.p.Hold.Keep, r.p.Hold.Charges
	if m.args.ttl != 0 {
		q.TTL = m.args.ttl
	}
	q.Version, q.Applied, q.Listed = r.p.Version, len(m.call.Applied), m.verdict == policy.Allowed
	if named {
		q.Named, q.Print, q.Key = true, asked, m.key
	}
}

// Check implements command.Limiter.
func (r *reserver) Check(now int64, checks []engine.Check, o engine.CheckOptions, out []engine.Checked) (engine.Verdict, error) {
	if r.m.verdict == policy.Denied { // a list denies it: nothing is charged
		return r.Limiter.Check(now, checks, o, out)
	}
	r.req.Limits = slices.Grow(r.req.Limits[:0], len(checks))[:len(checks)]
	for j := range checks {
		l := &r.m.call.Applied[r.m.at[j]]
		named := &r.req.Limits[j] // only these fields are read
		named.Name, named.CostBy, named.Each = l.Limit.Name, l.CostBy(), l.Numbers.Cost
		if l.Limit.Algorithm == policy.Concurrent {
			if err := r.setTTL(&checks[j]); err != nil {
				return engine.Verdict{}, err
			}
			continue
		}
		checks[j].TooMuch = checks[j].Mode == algo.Enforce && r.beyondShare(&checks[j])
	}
	if len(r.req.Key) == 0 {
		return r.Limiter.Check(now, checks, o, out)
	}
	return r.call.Sess.Reserve(now, checks, o, out, &r.req)
}

// setTTL sets when slots end, if the call says so.
func (r *reserver) setTTL(c *engine.Check) (err error) {
	if r.m.args.ttl != 0 {
		limit := c.Limit.Limit()
		limit.Period = r.m.args.ttl
		c.Limit, err = r.call.Sess.Ready(limit)
	}
	return err
}

// beyondShare reports whether a check asks for more than one hold may take.
func (r *reserver) beyondShare(c *engine.Check) bool {
	if r.req.Plain || r.p.Hold.Share == 100 {
		return false
	}
	limit := c.Limit.Limit()
	high, low := bits.Mul64(uint64(limit.Capacity()), uint64(r.p.Hold.Share))
	most, _ := bits.Div64(high, low, 100) // the share is below 100, so high is
	return uint64(c.Cost) > most
}

// idTries bounds how many ids a step that isolates keys may try. It needs one whose record
// is in an isolated shard, and that may be one of 256.
const idTries = 10_000

// name gives the hold a random id that nobody can guess.
func (r *reserver) name() {
	for range idTries {
		rand.Read(r.random[:]) // never fails: see crypto/rand
		key := append(append(append(r.m.key[:0], HoldPrefix...), r.p.Name...), ';')
		r.m.key = r.m.appendSlot(base64.RawURLEncoding.AppendEncode(key, r.random[:]))
		r.req.Key = r.m.key
		if r.call.Sess.Reaches(r.req.Key) {
			return
		}
	}
}

// repeatTries bounds the attempts at a call whose record comes and goes meanwhile.
const repeatTries = 4

// takesSlots reports whether the call asks for slots.
func (m *matched) takesSlots() bool {
	return slices.ContainsFunc(m.call.Applied, func(a policy.Applied) bool {
		return a.Limit.Algorithm == policy.Concurrent && a.Cost > 0
	})
}

// reserve is RL.RESERVE.
func (c *Checker) reserve(call *command.Call) {
	m := memory(call)
	defer m.end()
	set := c.setOf(call)
	p := m.take(call, set)
	if p == nil {
		if err := m.args.parseNamed(call.Args[2:], true); err != nil {
			call.Error(err.Error())
			return
		}
	}
	if m.args.force {
		call.Error("ERR FORCE is only for RL.CHECK")
		return
	}
	c.hold(call, m, set, p)
}

// hold decides a parsed call that makes a hold, has an ID or may take slots. p is the
// policy of set that it is matched with, or nil. Without a leader it is a check, and holds
// nothing.
func (c *Checker) hold(call *command.Call, m *checkMemory, set *policy.Set, p *policy.Policy) {
	limits := call.Limits
	defer func() { call.Limits = limits }()
	named := m.args.id != nil && !call.Degraded
	var asked reservation.Fingerprint
	if named {
		asked = m.fingerprint()
		m.key = namedKey(m.key[:0], call.Args[1], m.args.id)
	}
	for try := 0; ; try++ {
		ready := p != nil
		if c.homes.Several() && !c.homes.placeHold(call, m, set) {
			return
		}
		// First of all, a call that was made before gets the same answer, even if the policy
		// has changed. If the place of the record is known, Reserve itself looks for the
		// record first.
		if named && !ready && c.repeat(call, m, asked, set, p) {
			return
		}
		if !ready {
			if p = c.match(call, m, set); p == nil {
				return
			}
		}
		if m.args.holds && !c.homes.oneGroup(call, p, errTwoHold) {
			return
		}
		r := &m.reserver
		r.begin(limits, call, m, p)
		if !call.Degraded {
			call.Limits = r
		}
		if !call.Degraded && !m.args.peek {
			r.remember(named, asked)
			if !named && (m.args.holds || p.Slots && m.takesSlots()) {
				r.name()
			}
		}
		var a answer
		err := m.decide(call, p, engine.CheckOptions{Peek: m.args.peek, Anew: try > 0, Warm: ready}, &a)
		switch {
		case errors.Is(err, engine.ErrStale) && try < 2:
			set, p = c.book.Set(), nil
			continue
		case errors.Is(err, engine.ErrRepeated) && try < repeatTries: // another call with this ID was faster
			call.Limits, p = limits, nil
			continue
		}
		if err != nil {
			if !named || !ready || !c.repeat(call, m, asked, set, p) {
				m.fail(call, err)
			}
			return
		}
		if a.ok {
			a.hold = r.hold()
		}
		c.answer(call, m, &a)
		return
	}
}

// hold returns the name of the hold of a call that has passed, nil if it made none.
func (r *reserver) hold() []byte {
	if !r.req.Held {
		return nil
	}
	return r.req.Key[len(HoldPrefix):]
}
