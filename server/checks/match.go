package checks

import (
	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/engine/reservation"
	"github.com/headgate-io/headgate/policy"
	"github.com/headgate-io/headgate/server/command"
)

// matched is a parsed call of RL.CHECK with the limits of its policy that apply.
type matched struct {
	call    *policy.Call
	verdict policy.Verdict // of call
	args    checkArgs
}

// match finds what of p applies to the parsed call.
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

// checkMemory is what one RL.CHECK or hold after the other uses.
type checkMemory struct {
	*matched         // the call that is being executed
	own      matched // a call that was not prepared

	// ahead holds the calls that were prepared in a round; round is command.Call.Round.
	// Those from next to ready have not run. When the first of them runs, all are matched.
	ahead       []*prepared
	next, ready int
	matchedAll  bool
	round       uint64
	sought      []engine.Sought // by them

	// reserver decides calls that make holds or have an ID. key is the key of the record.
	reserver reserver
	key      []byte
	record   reservation.Record // of an earlier call with the same ID
	until    int64              // when record ends, engine time in ns
	asked    []byte             // scratch of fingerprint
	order    []int              // scratch of fingerprint
	settling settler

	// slot is the slot of the call's home, if homed is set. home is scratch.
	slot  uint16
	homed bool
	home  []byte
	part  part // which limits are decided

	checks []engine.Check
	out    []engine.Checked
	// at is the position in call.Applied of each check.
	at   []int
	lane uint32 // of the owner of this memory, for counts

	passing passing
	ended   func() // Call.Ended

	asking *descriptorMemory // for RL.DESCRIPTORS, made by its first call
}

// newMemory returns the memory of a lane.
func newMemory() *checkMemory {
	m := &checkMemory{own: matched{call: policy.NewCall()}, lane: laneStripes.Add(1)}
	m.matched = &m.own
	m.ended = m.endRound
	return m
}

// memory returns the memory of the lane that executes the call.
func memory(call *command.Call) *checkMemory {
	m, ok := call.Memory.(*checkMemory)
	if !ok {
		m = newMemory()
		call.Memory = m
	}
	return m
}

// end drops the references to the client's input.
func (m *checkMemory) end() {
	m.matched.end()
	m.matched, m.part = &m.own, wholePolicy
}

func (m *matched) end() {
	m.call.End()
	clear(m.args.pairs)
	m.args.id = nil
}
