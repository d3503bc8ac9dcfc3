package checks

import (
	"bytes"
	"errors"
	"strconv"
	"sync"

	"github.com/headgate-io/headgate/cluster/partition"
	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/policy"
	"github.com/headgate-io/headgate/server/command"
)

// # Homes
//
// If a node has several groups, a call on a policy runs whole in one of them: the group of
// the slot of its home's value (see policy.Policy.Home). The server hashes the value as it
// would hash a key. It takes the value in the form that keys of counters have. A call without
// a home runs in the first group.
//
// The server asks for the slot before it runs a command (command.Spec.Home), by the policies
// that it knows then. The handler asks again, by the policies that decide. If the two differ,
// a change of the policy has moved the home, and the caller tries again. So one version of a
// policy never counts one caller in two groups.
//
// A call on a policy with ceilings may also need a second group: see two.go.
//
// A hold of such a call is named `policy;id;slot`, so its settlement finds the group.

// Homes finds the groups of calls.
type Homes struct {
	engines []*engine.Engine // of the groups
	book    Book
	ask     Ask
	two     twoCounts
	slotOf  func(key []byte) uint16
	calls   sync.Pool // of *homing
	// memories has a *checkMemory for each call of two groups that runs.
	memories sync.Pool
}

// homing is the memory in which a home is found.
type homing struct {
	matched
	value []byte
}

// NewHomes returns the homes of calls on some engines, one of each group. slotOf returns the
// hash slot of a key.
func NewHomes(engines []*engine.Engine, slotOf func(key []byte) uint16, ask Ask) *Homes {
	h := &Homes{engines: engines, slotOf: slotOf, ask: ask}
	h.memories.New = func() any { return newMemory() }
	h.calls.New = func() any { return &homing{matched: matched{call: policy.NewCall()}} }
	return h
}

// Several reports whether there are several groups. h may be nil.
func (h *Homes) Several() bool { return h != nil && len(h.engines) > 1 }

// Others returns the engines of all groups except the first. h may be nil.
func (h *Homes) Others() []*engine.Engine {
	if h == nil {
		return nil
	}
	return h.engines[1:]
}

// borrow returns memory, which the caller gives back with giveBack.
func (h *Homes) borrow() *homing { return h.calls.Get().(*homing) }

func (h *Homes) giveBack(x *homing) {
	x.end()
	h.calls.Put(x)
}

// slot returns the slot of the home of a call, from its pairs.
func (h *Homes) slot(x *homing, p *policy.Policy, pairs [][]byte, printed bool) (slot uint16, ok bool) {
	x.call.SetHome(p, pairs, printed)
	return h.slotIn(x.call, &x.value)
}

// slotIn returns the slot of the home of a call whose attributes are set. Without a value of
// the home, only ceilings can be charged, so it is their slot.
func (h *Homes) slotIn(c *policy.Call, scratch *[]byte) (slot uint16, ok bool) {
	if *scratch, ok = c.AppendHome((*scratch)[:0]); !ok {
		return h.ceilingIn(c, scratch)
	}
	return h.slotOf(*scratch), true
}

// ceilingIn returns the slot of the ceilings of a call whose attributes are set.
func (h *Homes) ceilingIn(c *policy.Call, scratch *[]byte) (slot uint16, ok bool) {
	if *scratch, ok = c.AppendCeiling((*scratch)[:0]); ok {
		slot = h.slotOf(*scratch)
	}
	return slot, ok
}

// SlotOf returns the slot of the home of a call on a policy, from its pairs of attributes.
// Secrets may be given as their printed forms.
func (h *Homes) SlotOf(p *policy.Policy, pairs [][]byte) (slot uint16, ok bool) {
	x := h.borrow()
	defer h.giveBack(x)
	return h.slot(x, p, pairs, true)
}

// group returns the group of a slot. ok is false for no slot.
func (h *Homes) group(slot uint16, ok bool) int {
	if !ok {
		return 0
	}
	return partition.GroupOf(slot, len(h.engines))
}

// Here reports whether the session is of the group of a slot. ok is false for no slot.
func (h *Homes) Here(sess *engine.Session, slot uint16, ok bool) bool {
	return sess.Engine().Index() == h.group(slot, ok)
}

// engineOf returns the engine of the group of a slot.
func (h *Homes) engineOf(slot uint16, ok bool) *engine.Engine {
	if !h.Several() {
		return h.engines[0]
	}
	return h.engines[h.group(slot, ok)]
}

// engineOfKey returns the engine that has a policy's counter.
func (h *Homes) engineOfKey(key []byte) *engine.Engine {
	if !h.Several() {
		return h.engines[0]
	}
	return h.engineOf(h.keyHome(key))
}

// homesOf returns the homes of a checker, nil for a checker of a table that is only shown.
func homesOf(c *Checker) *Homes {
	if c == nil {
		return nil
	}
	return c.homes
}

// # Homes of commands

// policyHome returns the slot of a call on a policy. parse reads what follows the policy's
// name, into the arguments.
func (h *Homes) policyHome(name []byte, parse func(a *checkArgs) error) (slot uint16, ok bool) {
	set, _ := h.book.Current()
	p := set.Policy(name)
	if p == nil || p.Home() == "" {
		return 0, false
	}
	x := h.borrow()
	defer h.giveBack(x)
	if parse(&x.args) != nil {
		return 0, false
	}
	return h.slot(x, p, x.args.pairs, x.args.printed)
}

func (h *Homes) checkHome(args [][]byte) (slot uint16, ok bool) {
	return h.policyHome(args[1], func(a *checkArgs) error { return a.parseNamed(args[2:], false) })
}

func (h *Homes) reserveHome(args [][]byte) (slot uint16, ok bool) {
	return h.policyHome(args[1], func(a *checkArgs) error { return a.parseReserve(args[2:]) })
}

// LeaseHome returns the slot of an RL.LEASE or RL.RETURN of a policy. args begin with its
// name.
func (c *Checker) LeaseHome(args [][]byte) (slot uint16, ok bool) {
	return c.homes.policyHome(args[0], func(a *checkArgs) error { return a.parseLease(args[1:]) })
}

// holdHome returns the slot of a hold.
func holdHome(args [][]byte) (slot uint16, ok bool) { return slotOfHold(args[1]) }

// descriptorsHome returns the slot of an RL.DESCRIPTORS.
func (h *Homes) descriptorsHome(args [][]byte) (slot uint16, ok bool) {
	set, _ := h.book.Current()
	var a descriptorArgs
	p := set.Policy(args[1])
	if p == nil || p.Home() == "" || a.parse(args[1:]) != nil {
		return 0, false
	}
	slot, ok, _ = h.slotOfAll(p, &a)
	return slot, ok
}

// slotOfAll returns the slot of the descriptors of a request. Descriptors without a value of
// the home need no slot. It returns an error if two descriptors need different slots.
func (h *Homes) slotOfAll(p *policy.Policy, a *descriptorArgs) (slot uint16, ok bool, err error) {
	x := h.borrow()
	defer h.giveBack(x)
	for i := range a.asked {
		is, has := h.slot(x, p, a.asked[i].Entries, false)
		switch {
		case !has:
		case !ok:
			slot, ok = is, true
		case is != slot:
			err = badCall{errors.New("descriptors with different values of '" + p.Home() + "', the home of policy '" + p.Name + "', need separate requests")}
		}
	}
	return slot, ok, err
}

// explainHome returns the slot of an RL.EXPLAIN.
func (h *Homes) explainHome(args [][]byte) (slot uint16, ok bool) {
	switch {
	case len(args) == 2:
		return h.keyHome(args[1])
	case len(args) == 3 && command.EqualFold(args[1], "hold"):
		return slotOfHold(args[2])
	case len(args) > 2 && command.EqualFold(args[1], "policy"):
		return h.policyHome(args[2], func(a *checkArgs) error {
			err := a.parse(args[3:])
			a.printed = true
			return err
		})
	}
	return 0, false
}

// keyHome returns the slot of the calls that a policy's counter counts. For other keys ok is
// false. For a counter of the first group it is any slot of that group.
func (h *Homes) keyHome(key []byte) (slot uint16, ok bool) {
	name, id, _, ok := policy.ParseKey(key)
	if !ok {
		if name, ok = policy.IsDescriptorKey(key); !ok {
			return 0, false
		}
		id = policy.DescriptorsID
	}
	set, _ := h.book.Current()
	p := set.Policy([]byte(name))
	if p == nil {
		return 0, false
	}
	l := p.LimitWithID(id)
	if l == nil && (p.Descriptors() == nil || id != policy.DescriptorsID) {
		return 0, false
	}
	x := h.borrow()
	defer h.giveBack(x)
	if x.value, ok = p.AppendHomeOfKey(x.value[:0], key, l); !ok {
		return 0, true
	}
	return h.slotOf(x.value), true
}

// slotOfHold returns the slot in the name of a hold, if it has one.
func slotOfHold(hold []byte) (slot uint16, ok bool) {
	_, id, _ := cutHold(hold)
	i := bytes.IndexByte(id, ';')
	if i < 0 {
		return 0, false
	}
	n, err := strconv.ParseUint(string(id[i+1:]), 10, 16)
	return uint16(n), err == nil && n < partition.HashSlots
}

// # Homes in handlers

// place notes the slot of the call, which is matched with its policy, and reports whether
// its group decides here. If another group does, place replies that the caller tries again.
func (h *Homes) place(call *command.Call, m *checkMemory, p *policy.Policy) bool {
	if !h.Several() {
		return true
	}
	if call.InExec && !h.oneGroup(call, p, errTwoStep) {
		return false
	}
	m.slot, m.homed = h.slotIn(m.call, &m.home)
	return h.here(call, m)
}

// here reports whether the group of the call's slot decides here. Without a leader, any
// group does.
func (h *Homes) here(call *command.Call, m *checkMemory) bool {
	if call.Degraded || h.Here(call.Sess, m.slot, m.homed) && !h.book.Behind() {
		return true
	}
	call.Error(ErrChanging.Error())
	return false
}

// placeHold does the same as place for a call that may make a hold or have an ID. The call
// need not be matched. It also sets the key of the call's record.
func (h *Homes) placeHold(call *command.Call, m *checkMemory, set *policy.Set) bool {
	x := h.borrow()
	defer h.giveBack(x)
	m.homed = false
	if p := set.Policy(call.Args[1]); p != nil {
		m.slot, m.homed = h.slot(x, p, m.args.pairs, m.args.printed)
	}
	if m.args.id != nil && !call.Degraded {
		m.key = m.appendSlot(namedKey(m.key[:0], call.Args[1], m.args.id))
	}
	return h.here(call, m)
}

// placeAll does the same as place for the descriptors of a request.
func (h *Homes) placeAll(call *command.Call, m *checkMemory, p *policy.Policy) bool {
	var err error
	if m.slot, m.homed, err = h.slotOfAll(p, &m.asking.args); err != nil {
		m.fail(call, err)
		return false
	}
	return h.here(call, m)
}

// appendSlot appends the call's slot to the name of a hold.
func (m *checkMemory) appendSlot(hold []byte) []byte { return appendSlot(hold, m.slot, m.homed) }

func appendSlot(hold []byte, slot uint16, ok bool) []byte {
	if !ok {
		return hold
	}
	return strconv.AppendUint(append(hold, ';'), uint64(slot), 10)
}

// # Limits of several engines

// Readies are the Handle of numbers whose limit is registered with the engine of each group.
type Readies []engine.Ready

// ReadyFor returns a limit with some numbers for the engine of a session. Numbers that come
// from a SCALE are not registered with any engine.
func ReadyFor(sess *engine.Session, l *policy.Limit, n *policy.Numbers) (engine.Ready, error) {
	switch h := n.Handle.(type) {
	case engine.Ready:
		return h, nil
	case Readies:
		return h[sess.Engine().Index()], nil
	}
	return sess.Ready(EngineLimit(l, n))
}

// anyReady returns a limit with some numbers for any engine, to look at the limit.
func anyReady(n *policy.Numbers) (engine.Ready, bool) {
	if all, ok := n.Handle.(Readies); ok {
		return all[0], true
	}
	r, ok := n.Handle.(engine.Ready)
	return r, ok
}
