package limits

import (
	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/policy"
	"github.com/headgate-io/headgate/server/command"
)

// # Checks that are prepared
//
// What applies to an RL.CHECK, and by which keys, follows from its arguments, the
// policies and the time, and no counter is asked for it. So the checks of a
// pipeline are parsed and matched before the first of them runs, their counters
// are asked for together, and each finds what was matched when its turn comes.

// matched is a parsed call of RL.CHECK, and what of its policy applies to it.
type matched struct {
	call    *policy.Call
	verdict policy.Verdict // of call
	args    checkArgs
}

// prepared is a call that was matched ahead.
type prepared struct {
	matched
	// first is where the call's arguments are; the others tell what it was matched
	// with.
	first  *[]byte
	set    *policy.Set
	policy *policy.Policy
	now    int64
}

// checkMemory is what RL.CHECK uses call after call.
type checkMemory struct {
	*matched         // of the call that is being executed
	own      matched // of one that was not prepared

	// ahead has the calls that were prepared in a round, from next to ready; round
	// is command.Call.Round.
	ahead       []*prepared
	next, ready int
	round       uint64
	sought      []engine.Sought // by them

	checks []engine.Check
	out    []engine.Checked
	// at is the position in call.Applied of each check.
	at   []int
	lane uint32 // of whom it is the memory, for counts
}

// newMemory returns the memory of one who executes calls.
func newMemory() *checkMemory {
	m := &checkMemory{own: matched{call: policy.NewCall()}, lane: laneStripes.Add(1)}
	m.matched = &m.own
	return m
}

// memory returns the memory of who executes the call.
func memory(call *command.Call) *checkMemory {
	m, ok := call.Memory.(*checkMemory)
	if !ok {
		m = newMemory()
		call.Memory = m
	}
	return m
}

// end lets go of the client's input.
func (m *checkMemory) end() {
	m.matched.end()
	m.matched = &m.own
}

func (m *matched) end() {
	m.call.End()
	clear(m.args.pairs)
}

// ahead is command.Spec.Ahead of RL.CHECK. What is an error is left for its turn.
func (b *Book) ahead(call *command.Call, args [][]byte) {
	m := memory(call)
	if m.round != call.Round {
		m.forget()
		m.round = call.Round
	}
	set, _ := b.current()
	p := set.Policy(args[1])
	if p == nil {
		return
	}
	if m.ready == len(m.ahead) {
		m.ahead = append(m.ahead, &prepared{matched: matched{call: policy.NewCall()}})
	}
	x := m.ahead[m.ready]
	if x.args.parse(args[2:]) != nil || x.match(p, call.Now) != nil || x.verdict != policy.Decide {
		x.end()
		return
	}
	x.first, x.set, x.policy, x.now = &args[0], set, p, call.Now
	m.ready++
	whole := len(x.call.Applied) <= engine.WarmKeys
	for i := range x.call.Applied {
		if l := &x.call.Applied[i]; !l.Missing {
			m.sought = append(m.sought, engine.Sought{Hash: l.Hash, Len: len(l.Key), Whole: whole})
		}
	}
}

// forget lets go of the calls that were prepared and not run.
func (m *checkMemory) forget() {
	for ; m.next < m.ready; m.next++ {
		m.ahead[m.next].drop()
	}
	m.next, m.ready, m.sought = 0, 0, m.sought[:0]
}

// drop lets go of a prepared call.
func (x *prepared) drop() {
	x.end()
	x.first, x.set, x.policy = nil, nil, nil
}

// take makes a call the prepared one, if it was and still is what set says, and
// returns its policy; nil if not. Calls run in the order in which they were
// prepared; some do not run here.
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
		m.next++
		if i == 0 {
			call.Sess.WarmChecks(m.sought)
		}
		p := x.policy
		if x.set != set || x.now != call.Now {
			x.drop()
			return nil
		}
		x.first, x.set, x.policy = nil, nil, nil
		m.matched = &x.matched
		return p
	}
	return nil
}

// match tells what of p applies to the parsed call.
func (m *matched) match(p *policy.Policy, now int64) (err error) {
	c := m.call
	c.Begin(p)
	for i := 0; i < len(m.args.pairs) && err == nil; i += 2 {
		if name, value := m.args.pairs[i], m.args.pairs[i+1]; m.args.printed {
			err = c.SetPrinted(name, value)
		} else {
			err = c.Set(name, value)
		}
	}
	if err != nil {
		return badCall{err}
	}
	c.Units = m.args.units
	if m.verdict, err = c.Match(now); err != nil {
		return badCall{err}
	}
	return nil
}
