package checks

import (
	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/internal/prefetch"
	"github.com/headgate-io/headgate/policy"
	"github.com/headgate-io/headgate/server/command"
)

// # Checks that are prepared
//
// The limits and keys of an RL.CHECK follow from its arguments, the policies and the time;
// no counter is read for them. So the checks of a pipeline are parsed before the first of
// them runs. Then all are matched, in steps that prefetch the policies of all before one is
// read, and their counters are prefetched together. Each check finds its match when it
// runs.

// prepared is a call that was parsed ahead.
type prepared struct {
	matched
	// first points to the call's arguments. name is its policy's name, and hash the hash of
	// that.
	first *[]byte
	name  []byte
	hash  uint64
	// set and now are what the call is matched with. policy is the policy found; nil if the
	// call is an error, which is replied when the call runs.
	set    *policy.Set
	policy *policy.Policy
	now    int64
	// cold reports that the call before it names another policy.
	cold bool
}

// ahead and aheadReserve are command.Spec.Ahead of RL.CHECK and RL.RESERVE.
func (c *Checker) ahead(call *command.Call, args [][]byte)        { c.parseAhead(call, args, false) }
func (c *Checker) aheadReserve(call *command.Call, args [][]byte) { c.parseAhead(call, args, true) }

// parseAhead is the first step in which the calls of a round are prepared together. holds
// reports that the call is RL.RESERVE. An error is replied when the call runs.
func (c *Checker) parseAhead(call *command.Call, args [][]byte, holds bool) {
	if c.homes.Several() { // the call may run in another group, at another time
		return
	}
	m := memory(call)
	m.beginRound(call)
	if m.ready == len(m.ahead) {
		m.ahead = append(m.ahead, &prepared{matched: matched{call: policy.NewCall()}})
	}
	x := m.ahead[m.ready]
	if x.args.parseNamed(args[2:], holds) != nil {
		clear(x.args.pairs)
		return
	}
	x.first, x.name, x.now = &args[0], args[1], call.Now
	x.set, _ = c.book.Current()
	x.hash = x.set.Seek(x.name)
	m.ready++
}

// beginRound prepares for the round of a call.
func (m *checkMemory) beginRound(call *command.Call) {
	if m.round != call.Round {
		m.forget()
		m.round = call.Round
		m.passing.together, call.Ended = true, m.ended
	}
}

// aheadSettle is command.Spec.Ahead of RL.COMMIT and RL.CANCEL. The record is prefetched
// together with what the other calls of the round need.
func (c *Checker) aheadSettle(call *command.Call, args [][]byte) {
	if c.homes.Several() {
		return
	}
	m := memory(call)
	m.beginRound(call)
	m.key = append(append(m.key[:0], HoldPrefix...), args[1]...)
	m.sought = append(m.sought, call.Sess.SoughtHold(m.key))
}

// warm takes the remaining steps for a call that is not matched, unless they were taken.
func (m *checkMemory) warm(call *command.Call) {
	if m.round == call.Round && !m.matchedAll && len(m.sought) > 0 {
		m.matchAll(call.Sess)
	}
}

// matchAll takes the remaining steps, and prefetches the counters of all calls. With
// several calls no step waits for what the step before has prefetched.
func (m *checkMemory) matchAll(sess *engine.Session) {
	m.matchedAll = true
	all := m.ahead[m.next:m.ready]
	var last prepared
	for _, x := range all {
		if x.hash == last.hash && x.set == last.set {
			x.policy, x.cold = last.policy, false
			continue
		}
		x.policy = x.set.Fetch(x.hash)
		x.cold = x.policy != nil
		last.hash, last.set, last.policy = x.hash, x.set, x.policy
	}
	for step := range policy.Touches {
		for _, x := range all {
			if x.cold {
				x.policy.Touch(step)
				touchAttached(x.policy, step)
			}
		}
	}
	for _, x := range all {
		if x.policy = x.set.Sought(x.hash, x.name); x.policy == nil {
			continue
		}
		if x.match(x.policy, x.now) != nil || x.verdict != policy.Decide {
			x.policy = nil
			continue
		}
		if x.args.id != nil {
			m.key = namedKey(m.key[:0], x.name, x.args.id)
			m.sought = append(m.sought, sess.SoughtHold(m.key))
		}
		whole := len(x.call.Applied) <= engine.WarmKeys
		for i := range x.call.Applied {
			l := &x.call.Applied[i]
			if l.Missing {
				continue
			}
			k := engine.Sought{Hash: l.Hash, Len: len(l.Key), Whole: whole}
			if x.cold {
				k.Limit, _ = l.Numbers.Handle.(engine.Ready)
			}
			m.sought = append(m.sought, k)
		}
	}
	sess.WarmChecks(m.sought)
}

// touchAttached is Policy.Touch for what is attached to a policy.
func touchAttached(p *policy.Policy, step int) {
	const lines = 3 // of most policies
	k, ok := p.Handle.(*attached)
	switch {
	case !ok:
	case step == 0:
		prefetch.Object(k)
	case step == 1:
		prefetch.Array(k.limits, lines)
	}
}

// forget drops the calls that were prepared and did not run.
func (m *checkMemory) forget() {
	for ; m.next < m.ready; m.next++ {
		m.ahead[m.next].drop()
	}
	m.next, m.ready, m.matchedAll = 0, 0, false
	clear(m.sought)
	m.sought = m.sought[:0]
}

// drop drops a prepared call.
func (x *prepared) drop() {
	x.end()
	x.first, x.name, x.set, x.policy = nil, nil, nil, nil
}

// take makes a call the prepared one, if it was prepared and still matches set, and returns
// its policy. Otherwise it returns nil. Calls run in the order in which they were prepared;
// some do not run here.
func (m *checkMemory) take(call *command.Call, set *policy.Set) *policy.Policy {
	if m.round != call.Round {
		return nil
	}
	for i := m.next; i < m.ready; i++ {
		x := m.ahead[i]
		if x.first != &call.Args[0] {
			continue
		}
		for ; m.next < i; m.next++ {
			m.ahead[m.next].drop()
		}
		if !m.matchedAll {
			m.matchAll(call.Sess)
		}
		m.next++
		p := x.policy
		if p == nil || x.set != set || x.now != call.Now {
			x.drop()
			return nil
		}
		x.first, x.name, x.set, x.policy = nil, nil, nil, nil
		m.matched = &x.matched
		return p
	}
	return nil
}
