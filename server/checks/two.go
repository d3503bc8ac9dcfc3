package checks

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/engine/algo"
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
	// although the call was denied, because this node has stopped leading. Unknown counts
	// those that the second group may or may not have charged.
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
// what says what such a call cannot be.
func (h *Homes) oneGroup(call *command.Call, p *policy.Policy, what string) bool {
	if !h.Several() || !p.Ceilings || call.Degraded {
		return true
	}
	call.Error(fmt.Sprintf("CROSSSLOT policy '%s' has limits in two groups: %s", p.Name, what))
	return false
}

const (
	errTwoHold        = "its calls have no ID and no hold"
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

// inTwo runs a call that needs two groups. p is its policy. of returns what differs between
// commands, for the call that it is given.
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
	first, a := firstStep{Limiter: call.Sess, sess: call.Sess}, new(answer)
	for try := 0; ; try++ {
		p := c.matchNamed(call, m, c.setOf(call), x.name)
		if p == nil || !c.homes.place(call, m, p) {
			return nil
		}
		group, two := c.homes.splits(call, m)
		m.part = wholePolicy
		if two {
			m.part = homePart
		}
		call.Limits = &first
		err := m.decide(call, p, engine.CheckOptions{Peek: m.args.peek, Force: m.args.force, Anew: try > 0}, a)
		switch {
		case err == nil && two && m.verdict == policy.Decide && (a.ok || x.shows):
			return func() {
				if c.homes.askCeilings(call, m, group, &first.charge, a) {
					x.answer(m, a)
				}
			}
		case err == nil && two && m.verdict == policy.Decide:
			a.dropCeilings()
			x.answer(m, a)
		case err == nil:
			x.answer(m, a)
		case try < 2 && errors.Is(err, engine.ErrStale):
			continue
		default:
			m.fail(call, err)
		}
		return nil
	}
}

// firstStep takes the place of the session for the first step. It notes the charge.
type firstStep struct {
	command.Limiter
	sess   *engine.Session
	charge engine.Cancellable
}

// Check implements command.Limiter.
func (f *firstStep) Check(now int64, checks []engine.Check, o engine.CheckOptions, out []engine.Checked) (engine.Verdict, error) {
	return f.charge.Check(f.sess, now, checks, o, out)
}

// askCeilings asks the group of the ceilings, and adds their part to the answer of the other
// limits. After an error, which it has replied, it returns false.
func (h *Homes) askCeilings(call *command.Call, m *checkMemory, group int, charge *engine.Cancellable, a *answer) bool {
	counts := &h.two
	if m.args.peek { // nothing is charged
		counts = new(twoCounts)
	}
	counts.asked.Add(1)
	reply, err := h.ask(group, m.ceilingArgs(a.policy))
	var told ceilings
	if err != nil || !told.read(&reply) {
		counts.unknown.Add(1)
		call.Host.Uncertain(call.W)
		return false
	}
	call.Degraded = told.degraded
	switch {
	case told.refusal == "" && !a.ok: // the other limits have denied the call: see twoCall.shows
		a.fill(&told)
		return true
	case told.refusal == "" && told.ok:
		a.join(&told)
		return true
	}
	// A call that the ceilings deny counts for limits that count all calls, unless one of the
	// ceilings blocks the caller.
	counted := told.refusal == "" && (told.reason != reasonPenalty || told.begun)
	if err := charge.Cancel(call.Sess, call.Now, counted); err == nil {
		counts.cancelled.Add(1)
	} else if counts.kept.Add(1); told.refusal != "" { // which would say that nothing is charged
		call.Host.Uncertain(call.W)
		return false
	}
	if told.refusal != "" {
		call.Error(told.refusal)
		return false
	}
	m.showDenied(call, a)
	a.join(&told)
	return true
}

// showDenied sets the answers of the first step's limits to what they are for a denied call.
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

// ceilingArgs returns the RL.CEILING of a call.
func (m *checkMemory) ceilingArgs(p *policy.Policy) [][]byte {
	a := &m.args
	args := [][]byte{
		[]byte("RL.CEILING"), []byte(p.Name), strconv.AppendUint(nil, p.Version, 10), strconv.AppendInt(nil, command.Truth(a.printed), 10),
	}
	args = append(args, a.pairs...)
	args = append(args, []byte("COST"), strconv.AppendInt(nil, a.units, 10))
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

// # RL.CEILING

// ceiling is RL.CEILING: it decides the ceilings of a call whose other limits have passed.
func (c *Checker) ceiling(call *command.Call) {
	if !c.homes.Several() {
		call.Error("ERR RL.CEILING is for the nodes of a cluster with several groups")
		return
	}
	m := memory(call)
	defer m.end()
	version, err := strconv.ParseUint(string(call.Args[2]), 10, 64)
	if err == nil {
		err = m.args.parseNamed(call.Args[4:], false)
	}
	if err != nil {
		call.Error(command.ErrSyntax.Error())
		return
	}
	m.args.printed = string(call.Args[3]) == "1"
	p := c.match(call, m, c.setOf(call))
	if p == nil {
		return
	}
	m.slot, m.homed = c.homes.ceilingIn(m.call, &m.home)
	if p.Version != version {
		call.Error(ErrChanging.Error())
		return
	}
	if !c.homes.here(call, m) {
		return
	}
	m.part = ceilingPart
	var a answer
	if err := m.decide(call, p, engine.CheckOptions{Peek: m.args.peek, Force: m.args.force}, &a); err != nil {
		m.fail(call, err)
		return
	}
	call.Sync = durability(p, m.args.sync)
	a.writeCeilings(call)
}

// ceilingHome returns the slot of an RL.CEILING.
func (h *Homes) ceilingHome(args [][]byte) (slot uint16, ok bool) {
	set, _ := h.book.Current()
	p := set.Policy(args[1])
	x := h.borrow()
	defer h.giveBack(x)
	if p == nil || len(args) < 4 || x.args.parseNamed(args[4:], false) != nil {
		return 0, false
	}
	x.call.SetHome(p, x.args.pairs, string(args[3]) == "1")
	return h.ceilingIn(x.call, &x.value)
}

// ceilingHeadless returns how an RL.CEILING is answered without a leader.
func (c *Checker) ceilingHeadless(args [][]byte) command.Headless {
	h := c.headless(append([][]byte{args[0], args[1]}, args[min(4, len(args)):]...))
	h.NoShare = false
	return h
}

// ceilings is the reply of RL.CEILING: the part of the ceilings in an answer.
type ceilings struct {
	refusal  string // an error: nothing is charged
	ok       bool
	reason   string
	binding  int // the index of a limit in its policy, -1 for none
	delay    int64
	begun    bool
	degraded bool
	each     []ceilingAnswer
}

// ceilingAnswer is the answer of one ceiling.
type ceilingAnswer struct {
	index int
	engine.Checked
}

// Numbers of fields in the reply of RL.CEILING: before the limits, and of each limit.
const (
	ceilingHead = 6
	ceilingEach = 9
)

// writeCeilings replies the ceilings of a.
func (a *answer) writeCeilings(call *command.Call) {
	w := call.W
	n := 0
	for i := range a.applied {
		if a.applied[i].Limit.Ceiling {
			n++
		}
	}
	w.Array(ceilingHead + ceilingEach*n)
	binding := -1
	if a.binding >= 0 {
		binding = a.applied[a.binding].Limit.Index
	}
	w.BulkString(a.reason)
	for _, v := range [...]int64{command.Truth(a.ok), int64(binding), a.delay, command.Truth(a.begun), command.Truth(call.Degraded)} {
		w.Int(v)
	}
	for i := range a.applied {
		l, d := a.applied[i].Limit, &a.each[i]
		if !l.Ceiling {
			continue
		}
		for _, v := range [...]int64{
			int64(l.Index), command.Truth(d.OK), command.Truth(d.Over), d.Allowed, d.Limit, d.Remaining, d.RetryAfter, d.ResetAfter, d.Delay,
		} {
			w.Int(v)
		}
	}
}

// read reads the reply of RL.CEILING. It returns false if the reply does not say whether the
// call was charged.
func (x *ceilings) read(r *resp.Reply) bool {
	if r.Type == '-' {
		x.refusal = r.Str
		return !strings.HasPrefix(r.Str, "UNCERTAIN ")
	}
	e := r.Elems
	if len(e) < ceilingHead || (len(e)-ceilingHead)%ceilingEach != 0 {
		return false
	}
	x.reason, x.ok, x.binding = e[0].Str, e[1].Int != 0, int(e[2].Int)
	x.delay, x.begun, x.degraded = e[3].Int, e[4].Int != 0, e[5].Int != 0
	for e = e[ceilingHead:]; len(e) > 0; e = e[ceilingEach:] {
		x.each = append(x.each, ceilingAnswer{int(e[0].Int), engine.Checked{Over: e[2].Int != 0, Decision: algo.Decision{
			OK: e[1].Int != 0, Allowed: e[3].Int, Limit: e[4].Int, Remaining: e[5].Int, RetryAfter: e[6].Int, ResetAfter: e[7].Int, Delay: e[8].Int,
		}}})
	}
	return true
}

// fill sets the answers of the ceilings.
func (a *answer) fill(x *ceilings) {
	for _, c := range x.each {
		for i := range a.applied {
			if a.applied[i].Limit.Index == c.index {
				a.each[i] = c.Checked
			}
		}
	}
}

// join adds the part of the ceilings to the answer of the other limits, which have passed the
// call. The limit that stands for the call is the same as if one step had decided all.
func (a *answer) join(x *ceilings) {
	a.fill(x)
	for i := range a.applied {
		if a.applied[i].Limit.Index == x.binding && (!x.ok || a.binding < 0 || a.standsBefore(i)) {
			a.binding = i
		}
	}
	a.delay, a.begun = max(a.delay, x.delay), x.begun
	if a.ok = x.ok; !a.ok {
		a.delay, a.reason = x.delay, x.reason
	}
}

// dropCeilings removes the ceilings, which were not asked.
func (a *answer) dropCeilings() {
	applied, each, binding := a.applied, a.each, a.binding
	a.applied, a.each, a.binding = nil, nil, -1
	for i := range applied {
		if l := &applied[i]; l.Limit.Ceiling && !l.Missing {
			continue
		}
		if i == binding {
			a.binding = len(a.applied)
		}
		a.applied, a.each = append(a.applied, applied[i]), append(a.each, each[i])
	}
}

// standsBefore reports whether limit i stands for a call that passes, rather than
// a.binding: it has room for fewer such calls.
func (a *answer) standsBefore(i int) bool {
	room := func(i int) int64 { return a.each[i].Remaining / max(a.applied[i].Cost, 1) }
	mine, others := room(i), room(a.binding)
	return mine < others || mine == others && i < a.binding
}
