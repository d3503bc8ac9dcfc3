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
// A client that does not know the outcome of a call can repeat it, if the call has an ID.
// The call is charged once, and the repetition is answered the same. Its record has the
// form of a hold's, under that ID, and lives as long; for RL.CHECK it holds nothing. A
// denied call has charged nothing and leaves no record. two.go says how a call of two groups
// is repeated.

// namedKey appends the key of the record of a call with an ID.
func namedKey(b, name, id []byte) []byte {
	b = append(append(append(b, HoldPrefix...), name...), ';')
	return policy.AppendEscaped(b, id)
}

// fingerprint returns a digest of the command, its attributes in any order, and its cost.
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

// known looks for the record of a call at m.key, and copies it to m.record. ok is false if
// the record cannot be read, or if the ID belongs to another call; then it has replied.
func (c *Checker) known(call *command.Call, m *checkMemory, asked reservation.Fingerprint) (found, ok bool) {
	var err error
	m.record, m.until, err = call.Sess.Repeat(call.Now, m.key)
	switch {
	case errors.Is(err, engine.ErrNoHold):
		return false, true
	case err != nil:
		m.fail(call, err)
	case !m.record.Named || m.record.Print != asked:
		call.Error(fmt.Sprintf(errConflict, command.Clip(m.args.id, command.ErrorClip)))
	default:
		return true, true
	}
	return false, false
}

// repeat replies to a call that was made before, or whose ID belongs to another call. It
// returns false if no record is at m.key. p is the policy of set that the call is matched
// with, or nil.
func (c *Checker) repeat(call *command.Call, m *checkMemory, asked reservation.Fingerprint, set *policy.Set, p *policy.Policy) bool {
	found, ok := c.known(call, m, asked)
	if found {
		return c.renew(call, m, &m.record, set, p)
	}
	return !ok
}

// renew renews the slots of a repeated call, and replies. It returns false if the call's
// record has gone meanwhile.
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
			// The policy is gone, or now denies the call, which it let pass before.
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

// present returns the current numbers of a limit whose slots a repeated call holds. They
// are the numbers of p, which is matched with the call. If p has no such limit, they are
// the earlier numbers.
func (m *matched) present(p *policy.Policy, l *reservation.Held) engine.Present {
	for i := range m.call.Applied {
		if a := &m.call.Applied[i]; bytes.Equal(a.Key, l.Key) {
			return engine.Present{Limit: EngineLimit(a.Limit, a.Numbers), Mode: algo.Mode(a.Numbers.Mode)}
		}
	}
	gone := slices.ContainsFunc(p.Limits, func(is policy.Limit) bool { return is.Name == l.Name })
	return engine.Present{Limit: l.Limit, Mode: l.Mode, Gone: gone}
}
