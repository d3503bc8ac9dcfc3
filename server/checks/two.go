package checks

import (
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/engine/reservation"
	"github.com/headgate-io/headgate/policy"
	"github.com/headgate-io/headgate/resp"
	"github.com/headgate-io/headgate/server/command"
)

// # Checks of two groups
//
// A policy with ceilings (see policy.Policy.Ceilings) may need two groups for a call: the
// group of its home, and the group of its ceilings. The leader of the home's group runs
// such a call on a goroutine of its own (command.Host.Aside), in two steps:
//
//  1. It decides the other limits, as one step. If they deny the call, that is the answer.
//  2. It asks the leader of the second group by RL.CEILING, which decides the ceilings, as
//     one step. If they deny the call, the first leader cancels its own charge.
//
// If nobody knows whether the second group has charged the call, the first charge stays. It
// also stays if this node has stopped leading meanwhile, because the charge may be lost. So
// the limits are never too lax. The charge and its cancellation are in one log, in this
// order.
//
// If both slots are in one group, the call is one step as before.
//
// # IDs
//
// Each group remembers its own step of a call with an ID, in a record like that of any call
// with an ID (repeat.go). A repeat takes both steps again. A group with a record repeats its
// answer. A group without one decides, for example the second group if the outcome of the
// first attempt was unknown. So a call charges each group once.
//
// A denied step leaves no record. If the ceilings deny the call, the first leader cancels the
// charge together with its record, so a repeat is a new call. Only the call that made the
// charge cancels it, and only if no repeat has read the record: the ceilings may pass the
// repeat, which then uses the charge.
//
// The record of the ceilings ends before the record at home. Otherwise, a new call with the
// same ID would be charged at home, and the ceilings would take it for the old one. In the
// last seconds of the record at home, a repeat gets TRYAGAIN.

// part is the part of a policy's limits that a step decides.
type part uint8

const (
	wholePolicy part = iota
	homePart         // without the ceilings
	ceilingPart
)

// has reports whether a limit is in the part.
func (x part) has(l *policy.Limit) bool {
	return x == wholePolicy || l.Ceiling == (x == ceilingPart)
}

// Ask runs a command in a group, wherever its leader is. An error says that the command may
// have been executed.
type Ask func(group int, args [][]byte) (resp.Reply, error)

// twoCounts counts calls of two groups.
type twoCounts struct{ asked, cancelled, kept, unknown atomic.Uint64 }

// TwoGroups counts the calls whose home was on this node.
type TwoGroups struct {
	// Asked counts the calls for which a second group was asked. Cancelled counts those
	// whose first charge was given back. Kept counts those whose first charge stays
	// although the call was denied, because this node has stopped leading, or because a
	// repeat with the same ID may use the charge. Unknown counts those that the second
	// group may or may not have charged.
	Asked, Cancelled, Kept, Unknown uint64
}

// TwoGroups returns the counts of calls of two groups.
func (c *Checker) TwoGroups() TwoGroups {
	n := &c.homes.two
	return TwoGroups{n.asked.Load(), n.cancelled.Load(), n.kept.Load(), n.unknown.Load()}
}

// splits reports whether the matched and placed call needs two groups. ceilings is the
// second one.
func (h *Homes) splits(call *command.Call, m *checkMemory) (ceilings int, ok bool) {
	if call.Degraded || !h.Several() || !m.meetsCeilings() {
		return 0, false
	}
	ceilings = h.group(h.ceilingIn(m.call, &m.home))
	return ceilings, ceilings != h.group(m.slot, m.homed)
}

// meetsCeilings reports whether the matched call has counters of ceilings.
func (m *matched) meetsCeilings() bool {
	for i := range m.call.Applied {
		if l := &m.call.Applied[i]; l.Limit.Ceiling && !l.Missing {
			return true
		}
	}
	return false
}

// oneGroup replies an error and returns false if a call of the policy may need two groups.
// what ends the error: it says what to do instead.
func (h *Homes) oneGroup(call *command.Call, p *policy.Policy, what string) bool {
	if !h.Several() || !p.Ceilings || call.Degraded {
		return true
	}
	call.Error(fmt.Sprintf("CROSSSLOT policy '%s' has limits in two groups: %s", p.Name, what))
	return false
}

const (
	errTwoHold        = "its calls have no hold: use RL.CHECK"
	errTwoStep        = "check it outside of transactions and scripts"
	errTwoDescriptors = "use RL.CHECK in place of RL.DESCRIPTORS"
)

// twoCall is how a command uses a check of two groups.
type twoCall struct {
	name   []byte                     // of the policy
	parse  func(m *checkMemory) error // parses the arguments of the command
	answer func(m *checkMemory, a *answer)
	shows  bool // asks the second group even if the first one denies the call
}

// inTwo runs a call of policy p that may need two groups. of returns the parts that differ
// between commands; its argument is the call to run.
func (c *Checker) inTwo(call *command.Call, m *checkMemory, p *policy.Policy, of func(call *command.Call) twoCall) {
	call.Sync = durability(p, m.args.sync)
	call.Host.Aside(call, func(call *command.Call) func() {
		m := c.homes.memories.Get().(*checkMemory)
		x := of(call)
		var then func()
		if err := x.parse(m); err != nil {
			call.Error(err.Error())
		} else {
			then = x.decide(c, call, m)
		}
		return func() {
			if then != nil {
				then()
			}
			m.end()
			c.homes.memories.Put(m)
		}
	})
}

// decide makes the first step. It replies, or returns a function that makes the second step
// and replies.
func (x *twoCall) decide(c *Checker, call *command.Call, m *checkMemory) (then func()) {
	first := &firstStep{charge: new(engine.Cancellable), answer: new(answer)}
	a := first.answer
	for try := 0; ; try++ {
		set := c.setOf(call)
		p := c.matchNamed(call, m, set, x.name)
		if p == nil || !c.homes.place(call, m, p) {
			return nil
		}
		group, two := c.homes.splits(call, m)
		m.part = wholePolicy
		if two {
			m.part = homePart
		}
		second := func() {
			switch told, ok := c.homes.askCeilings(call, m, group, first); {
			case !ok:
			case first.record != nil:
				c.answerRepeated(call, m, first, told)
			default:
				x.answer(m, a)
			}
		}
		call.Limits = call.Sess
		if m.args.id != nil {
			m.key = m.appendSlot(namedKey(m.key[:0], x.name, m.args.id))
			asked := m.fingerprint()
			found, ok := c.known(call, m, asked)
			switch {
			case !ok:
				return nil
			case found && m.record.Part && two:
				first.repeats(m, p)
				return second
			case found && m.record.Part && m.verdict == policy.Denied: // by a list, after an edit
			case found && c.renew(call, m, &m.record, set, p):
				return nil
			}
			m.reserver.begin(call.Sess, call, m, p)
			m.reserver.remember(true, asked)
			m.reserver.req.Part, first.until = two, call.Now+p.Hold.Keep
			call.Limits = &m.reserver
		}
		err := m.decide(call, p, engine.CheckOptions{Peek: m.args.peek, Force: m.args.force, Anew: try > 0, Note: first.charge}, a)
		switch {
		case err == nil && two && m.verdict == policy.Decide && (a.ok || x.shows):
			return second
		case err == nil && two && m.verdict == policy.Decide:
			a.only(homePart)
			x.answer(m, a)
		case err == nil:
			x.answer(m, a)
		case try < 2 && errors.Is(err, engine.ErrStale), try < repeatTries && errors.Is(err, engine.ErrRepeated):
			continue
		default:
			m.fail(call, err)
		}
		return nil
	}
}

// firstStep is the outcome of the first step.
type firstStep struct {
	charge *engine.Cancellable
	answer *answer
	// record is that of an earlier call with the same ID, which made the first step; nil if
	// this call has made it. until is when the record ends, engine time in ns.
	record *reservation.Record
	until  int64
}

// repeats makes f the first step of the earlier call whose record m has. p is matched with
// the call.
func (f *firstStep) repeats(m *checkMemory, p *policy.Policy) {
	f.record, f.until = &m.record, m.until
	r, applied := f.record, m.call.Applied
	*f.answer = answer{policy: p, ok: true, reason: reasonOK, binding: -1, delay: r.First.Delay, applied: applied, each: make([]engine.Checked, len(applied))}
	for i := range applied {
		if applied[i].Limit.Name == r.First.Name {
			f.answer.binding, f.answer.each[i].Decision = i, r.First.Decision
		}
	}
}

// answerRepeated replies to a call whose first step an earlier call has made. If the
// ceilings have decided only now, it counts their decision.
func (c *Checker) answerRepeated(call *command.Call, m *checkMemory, first *firstStep, told *ceilings) {
	a := first.answer
	f := heldFields{delay: a.delay, reason: a.reason, version: first.record.Version, applied: first.record.Applied, denied: !a.ok}
	if a.binding >= 0 {
		f.Decision, f.name = a.each[a.binding].Decision, a.applied[a.binding].Limit.Name
	}
	f.writeAlone(call)
	call.Sync = durability(a.policy, m.args.sync)
	if told.repeated {
		return
	}
	call.Decided(a.ok)
	a.only(ceilingPart)
	if m.count(a) && c.denials.Listening() {
		c.tellDenials(call.Now, a)
	}
}

// askCeilings asks the group of the ceilings, and adds their part to the answer of the other
// limits. After an error, which it has replied, it returns false.
func (h *Homes) askCeilings(call *command.Call, m *checkMemory, group int, first *firstStep) (told *ceilings, ok bool) {
	counts, a := &h.two, first.answer
	if m.args.peek { // nothing is charged
		counts = new(twoCounts)
	}
	counts.asked.Add(1)
	reply, err := h.ask(group, m.ceilingArgs(a.policy, first.until))
	told = new(ceilings)
	if err != nil || !told.read(&reply) {
		counts.unknown.Add(1)
		call.Host.Uncertain(call.W)
		return nil, false
	}
	call.Degraded = told.degraded
	switch {
	case told.refusal == "" && !a.ok: // the other limits have denied the call: see twoCall.shows
		a.fill(told)
		return told, true
	case told.refusal == "" && told.ok:
		a.join(told)
		return told, true
	case first.record != nil && told.refusal != "": // the charge is not of this call
		call.Error(told.refusal)
		return nil, false
	case first.record != nil:
		a.join(told)
		return told, true
	}
	// A call that the ceilings deny counts for limits that count all calls, unless one of the
	// ceilings blocks the caller.
	counted := told.refusal == "" && (told.reason != reasonPenalty || told.begun)
	if err := first.charge.Cancel(call.Sess, call.Now, counted); err == nil {
		counts.cancelled.Add(1)
	} else if counts.kept.Add(1); told.refusal != "" { // which would say that nothing is charged
		call.Host.Uncertain(call.W)
		return nil, false
	}
	if told.refusal != "" {
		call.Error(told.refusal)
		return nil, false
	}
	m.showDenied(call, a)
	a.join(told)
	return told, true
}

// showDenied makes the first step's answers those of a denied call.
func (m *checkMemory) showDenied(call *command.Call, a *answer) {
	for j := range m.checks {
		if x := &m.checks[j]; x.CountAll && !m.args.peek { // it has counted
			x.CountAll, x.Cost = false, 0
		}
	}
	checked := m.out[:len(m.checks)]
	if _, err := call.Sess.Check(call.Now, m.checks, engine.CheckOptions{Peek: true, Denied: true, Anew: true}, checked); err == nil {
		for j, i := range m.at {
			a.each[i] = checked[j]
		}
	}
}

// ceilingArgs returns the RL.CEILING of a call. until is when the record of its ID at home
// ends.
func (m *checkMemory) ceilingArgs(p *policy.Policy, until int64) [][]byte {
	a := &m.args
	args := [][]byte{
		[]byte("RL.CEILING"), []byte(p.Name), strconv.AppendUint(nil, p.Version, 10), strconv.AppendInt(nil, command.Truth(a.printed), 10),
		strconv.AppendInt(nil, until, 10),
	}
	args = append(args, a.pairs...)
	args = append(args, []byte("COST"), strconv.AppendInt(nil, a.units, 10))
	if a.id != nil {
		args = append(args, []byte("ID"), a.id)
	}
	option := func(given bool, words ...string) {
		for _, word := range words {
			if given {
				args = append(args, []byte(word))
			}
		}
	}
	option(a.peek, "PEEK")
	option(a.force, "FORCE")
	option(a.sync == command.SyncCommit, "SYNC")
	option(a.sync == command.SyncNone, "ASYNC")
	option(a.fail != policy.FailServer, "FAIL", a.fail.String())
	return args
}
