package checks

import (
	"github.com/headgate-io/headgate/policy"
	"github.com/headgate-io/headgate/server/command"
)

// # Keys that are not arguments
//
// Commands on policies and holds touch counters and records whose keys are not arguments. A
// step that isolates keys asks for these first.

// keys returns the keys of the counters that an RL.CHECK charges, none after an error.
func (c *Checker) keys(args [][]byte, now int64) [][]byte { return c.keysOf(args, now, false) }

// keysOf is keys. printed reports that secrets may be given as their printed forms.
func (c *Checker) keysOf(args [][]byte, now int64, printed bool) [][]byte {
	m := matched{call: policy.NewCall()} // not a session's: the returned keys outlast the command
	p := c.book.Set().Policy(args[1])
	if p == nil || m.args.parseReserve(args[2:]) != nil {
		return nil
	}
	if m.args.printed = printed; m.match(p, now) != nil {
		return nil
	}
	var keys [][]byte
	for i := range m.call.Applied {
		if key := m.call.Applied[i].Key; key != nil {
			keys = append(keys, key)
		}
	}
	if m.args.id != nil { // and those of its slots, to renew them
		keys = append(keys, c.homes.namedKeys(&m, args[1])...)
	}
	return keys
}

// namedKeys returns the keys of the record of a matched call with an ID, and of its slots.
func (h *Homes) namedKeys(m *matched, name []byte) [][]byte {
	var scratch []byte
	slot, ok := uint16(0), false
	if h.Several() {
		slot, ok = h.slotIn(m.call, &scratch)
	}
	return h.engineOf(slot, ok).ReservationKeys(appendSlot(namedKey(nil, name, m.args.id), slot, ok))
}

// heldKeys returns the keys that an RL.COMMIT or RL.CANCEL touches.
func (c *Checker) heldKeys(args [][]byte, _ int64) [][]byte {
	return c.homes.engineOf(slotOfHold(args[1])).ReservationKeys(holdKey(args[1]))
}

// explainKeys returns the position of RL.EXPLAIN's key, none if it is about a policy or a
// hold.
func explainKeys(args [][]byte, at []int) []int {
	if len(args) == 2 {
		at = append(at, 1)
	}
	return at
}

// explainedKeys returns the keys that RL.EXPLAIN of a policy or a hold reads.
func (c *Checker) explainedKeys(args [][]byte, now int64) [][]byte {
	switch {
	case len(args) == 3 && command.EqualFold(args[1], "hold"):
		return [][]byte{holdKey(args[2])}
	case len(args) > 2 && command.EqualFold(args[1], "policy"):
		if p := c.book.Set().Policy(args[2]); p != nil && p.Descriptors() != nil {
			return descriptorKeyOf(p, args[3:])
		}
		return c.keysOf(args[1:], now, true)
	}
	return nil
}
