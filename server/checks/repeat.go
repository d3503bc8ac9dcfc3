package checks

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/engine/reservation"
	"github.com/headgate-io/headgate/policy"
	"github.com/headgate-io/headgate/server/command"
)

// # Calls that are repeated
//
// A call that is given a name, by ID, can be made again by who does not know what
// became of it: it is charged once, and answered the same. Its record is that of a
// hold, under its name, and kept as long as one; RL.CHECK leaves one that holds
// nothing. A call that is denied has charged nothing, and leaves none.

// namedKey appends the key of the record of a call that is given a name.
func namedKey(b, name, id []byte) []byte {
	b = append(append(append(b, HoldPrefix...), name...), ';')
	return policy.AppendEscaped(b, id)
}

// fingerprint sums up what is asked: which command, the attributes in any order, and
// the cost.
func (m *checkMemory) fingerprint() (f reservation.Fingerprint) {
	a := &m.args
	m.order = m.order[:0]
	for i := 0; i < len(a.pairs); i += 2 {
		m.order = append(m.order, i)
	}
	slices.SortFunc(m.order, func(i, j int) int { return bytes.Compare(a.pairs[i], a.pairs[j]) })
	b := binary.AppendUvarint(append(m.asked[:0], byte(command.Truth(a.holds))), uint64(a.units))
	for _, i := range m.order {
		for _, part := range a.pairs[i : i+2] {
			b = append(binary.AppendUvarint(b, uint64(len(part))), part...)
		}
	}
	m.asked = b
	sum := sha256.Sum256(b)
	copy(f[:], sum[:])
	return f
}

// repeat replies to a call that was made before, or that has the name of another.
// It is false where there is none of that name, whose record would be under m.key. p is
// the policy of set that the call is matched with, or nil.
func (c *Checker) repeat(call *command.Call, m *checkMemory, asked reservation.Fingerprint, set *policy.Set, p *policy.Policy) bool {
	r, err := call.Sess.Reservation(call.Now, m.key)
	switch {
	case errors.Is(err, engine.ErrNoHold):
		return false
	case err != nil:
		m.fail(call, err)
	case !r.Named || r.Print != asked:
		call.Error(fmt.Sprintf(errConflict, command.Clip(m.args.id, command.ErrorClip)))
	default:
		return c.renew(call, m, &r, set, p)
	}
	return true
}

// renew gives the slots of a repeated call their time anew, and replies. It is false
// where the call's record has gone meanwhile.
func (c *Checker) renew(call *command.Call, m *checkMemory, r *reservation.Record, set *policy.Set, p *policy.Policy) bool {
	call.Sync = m.args.sync
	is := set.Policy(call.Args[1])
	if is != nil {
		call.Sync = durability(is, m.args.sync)
	}
	var says engine.Renewed
	if r.HasSlots() {
		known := p != nil && m.verdict == policy.Decide
		if p == nil && is != nil {
			known = m.match(is, call.Now) == nil && m.verdict != policy.Denied
		}
		var err error
		says, err = call.Sess.Renew(call.Now, m.key, func(l *reservation.Held) engine.Present {
			if known {
				return m.present(is, l)
			}
			// The policy is gone, or denies the call now, which it was answered before.
			return engine.Present{Limit: l.Limit, Mode: l.Mode}
		})
		switch {
		case errors.Is(err, engine.ErrNoHold):
			return false
		case err != nil:
			m.fail(call, err)
			return true
		}
		call.Decided(!says.Denied)
	}
	writeRepeated(call, r, &says, m.key)
	return true
}

// present returns what a limit of slots is now that a repeated call has taken: what p
// says of the call, which is matched with it, or what it was where there is none of
// that name any more.
func (m *matched) present(p *policy.Policy, l *reservation.Held) engine.Present {
	for i := range m.call.Applied {
		if a := &m.call.Applied[i]; bytes.Equal(a.Key, l.Key) {
			return engine.Present{Limit: EngineLimit(a.Limit, a.Numbers), Mode: algo.Mode(a.Numbers.Mode)}
		}
	}
	gone := slices.ContainsFunc(p.Limits, func(is policy.Limit) bool { return is.Name == l.Name })
	return engine.Present{Limit: l.Limit, Mode: l.Mode, Gone: gone}
}
