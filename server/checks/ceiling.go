package checks

import (
	"errors"
	"strconv"
	"strings"

	"github.com/headgate-io/headgate/cluster/partition"
	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/engine/reservation"
	"github.com/headgate-io/headgate/policy"
	"github.com/headgate-io/headgate/resp"
	"github.com/headgate-io/headgate/server/command"
)

// # RL.CEILING

// ceilingPairs is how many arguments of RL.CEILING come before the attributes.
const ceilingPairs = 5

// ceiling is RL.CEILING: it decides the ceilings of a call whose other limits have passed.
func (c *Checker) ceiling(call *command.Call) {
	if !c.homes.Several() {
		call.Error("ERR RL.CEILING is for the nodes of a cluster with several groups")
		return
	}
	m := memory(call)
	defer m.end()
	version, err := strconv.ParseUint(string(call.Args[2]), 10, 64)
	until, err2 := strconv.ParseInt(string(call.Args[4]), 10, 64)
	if err = errors.Join(err, err2); err == nil {
		err = m.args.parseNamed(call.Args[ceilingPairs:], false)
	}
	if err != nil {
		call.Error(command.ErrSyntax.Error())
		return
	}
	m.args.printed = string(call.Args[3]) == "1"
	limits := call.Limits
	defer func() { call.Limits = limits }()
	for try := 0; ; try++ {
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
		if m.args.id != nil && !call.Degraded {
			keep := until - idMargin - call.Now
			if keep <= 0 {
				call.Error(errIDEnds)
				return
			}
			m.key = c.homes.ceilingKey(m.key[:0], call.Args[1], m)
			asked := m.fingerprint()
			found, ok := c.known(call, m, asked)
			if !ok {
				return
			}
			if found {
				call.Sync = durability(p, m.args.sync)
				writeCeilingsAgain(call, p, &m.record)
				return
			}
			m.reserver.begin(limits, call, m, p)
			m.reserver.remember(true, asked)
			m.reserver.req.Keep = keep
			call.Limits = &m.reserver
		}
		var a answer
		err := m.decide(call, p, engine.CheckOptions{Peek: m.args.peek, Force: m.args.force}, &a)
		if errors.Is(err, engine.ErrRepeated) && try < repeatTries {
			continue
		}
		if err != nil {
			m.fail(call, err)
			return
		}
		call.Sync = durability(p, m.args.sync)
		a.writeCeilings(call)
		return
	}
}

// idMargin is how much earlier the record of the ceilings ends than the record at home, in
// ns. It is more than the difference between the clocks of two groups.
const idMargin = 2 * int64(engine.MaxSlew)

// errIDEnds is the error of a repeat in the last idMargin of its ID's record at home.
const errIDEnds = "TRYAGAIN the ID of the call ends now"

// ceilingKey appends the key of the record of a call with an ID. It names the slots of the
// ceilings and of the home, because each home has IDs of its own.
func (h *Homes) ceilingKey(b, name []byte, m *checkMemory) []byte {
	b = m.appendSlot(namedKey(b, name, m.args.id))
	slot, ok := h.slotIn(m.call, &m.home)
	return appendSlot(b, slot, ok)
}

// ceilingHome returns the slot of an RL.CEILING.
func (h *Homes) ceilingHome(args [][]byte) (slot uint16, ok bool) {
	set, _ := h.book.Current()
	p := set.Policy(args[1])
	x := h.borrow()
	defer h.giveBack(x)
	if p == nil || len(args) < ceilingPairs || x.args.parseNamed(args[ceilingPairs:], false) != nil {
		return 0, false
	}
	x.call.SetHome(p, x.args.pairs, string(args[3]) == "1")
	return h.ceilingIn(x.call, &x.value)
}

// ceilingHeadless returns how an RL.CEILING is answered without a leader.
func (c *Checker) ceilingHeadless(args [][]byte) command.Headless {
	h := c.headless(append([][]byte{args[0], args[1]}, args[min(ceilingPairs, len(args)):]...))
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
	repeated bool // the answer is that of an earlier call with the same ID
	each     []ceilingAnswer
}

// ceilingAnswer is the answer of one ceiling.
type ceilingAnswer struct {
	index int
	engine.Checked
}

// Numbers of fields in the reply of RL.CEILING: before the limits, and of each limit.
const (
	ceilingHead = 7
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
	binding := -1
	if a.binding >= 0 {
		binding = a.applied[a.binding].Limit.Index
	}
	a.writeCeilingHead(call, n, binding, false)
	for i := range a.applied {
		if l := a.applied[i].Limit; l.Ceiling {
			writeCeiling(w, l.Index, &a.each[i])
		}
	}
}

// writeCeilingHead writes the fields before n limits.
func (a *answer) writeCeilingHead(call *command.Call, n, binding int, repeated bool) {
	w := call.W
	w.Array(ceilingHead + ceilingEach*n)
	w.BulkString(a.reason)
	for _, v := range [...]int64{
		command.Truth(a.ok), int64(binding), a.delay, command.Truth(a.begun), command.Truth(call.Degraded), command.Truth(repeated),
	} {
		w.Int(v)
	}
}

func writeCeiling(w *resp.Writer, index int, d *engine.Checked) {
	for _, v := range [...]int64{
		int64(index), command.Truth(d.OK), command.Truth(d.Over), d.Allowed, d.Limit, d.Remaining, d.RetryAfter, d.ResetAfter, d.Delay,
	} {
		w.Int(v)
	}
}

// writeCeilingsAgain replies what the ceilings answered when the call was made: the limit
// that stands for them, if the policy still has it.
func writeCeilingsAgain(call *command.Call, p *policy.Policy, r *reservation.Record) {
	a := answer{ok: true, reason: reasonOK, delay: r.First.Delay}
	for i := range p.Limits {
		if p.Limits[i].Name == r.First.Name {
			a.writeCeilingHead(call, 1, i, true)
			writeCeiling(call.W, i, &engine.Checked{Decision: r.First.Decision})
			return
		}
	}
	a.writeCeilingHead(call, 0, -1, true)
}

// read reads the reply of RL.CEILING. It returns false if the reply does not say whether the
// call was charged.
func (x *ceilings) read(r *resp.Reply) bool {
	if r.Type == '-' {
		x.refusal = r.Str
		// If the ceilings' part was undone, the home's leader may be about to lose the charge's
		// cancellation for the same reason.
		return !strings.HasPrefix(r.Str, "UNCERTAIN ") && r.Str != partition.ErrUndone.Error()
	}
	e := r.Elems
	if len(e) < ceilingHead || (len(e)-ceilingHead)%ceilingEach != 0 {
		return false
	}
	x.reason, x.ok, x.binding = e[0].Str, e[1].Int != 0, int(e[2].Int)
	x.delay, x.begun, x.degraded, x.repeated = e[3].Int, e[4].Int != 0, e[5].Int != 0, e[6].Int != 0
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

// only removes the limits of the other part, which was not asked now.
func (a *answer) only(part part) {
	applied, each, binding := a.applied, a.each, a.binding
	a.applied, a.each, a.binding = nil, nil, -1
	for i := range applied {
		if l := &applied[i]; !part.has(l.Limit) && !(l.Missing && part == homePart) {
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
