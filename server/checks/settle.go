package checks

import (
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"strings"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/engine/reservation"
	"github.com/headgate-io/headgate/policy"
	"github.com/headgate-io/headgate/server/command"
	"github.com/headgate-io/headgate/server/limits/wire"
)

// holdKey returns the key of the hold that clients call id.
func holdKey(id []byte) []byte { return append([]byte(HoldPrefix), id...) }

// settler commits holds, one after the other.
type settler struct {
	set  func() *policy.Set // in force; shards are locked, so it must not wait
	hold []byte             // the name that clients use
	now  int64
	committed
	how engine.Settlement
}

// begin readies x to commit a hold.
func (x *settler) begin(set func() *policy.Set, hold []byte, now int64) {
	if x.set == nil {
		x.set = set
		x.how = engine.Settlement{State: reservation.Committed, Cost: x.cost, Accepts: x.accepts, Limit: x.limit, Window: x.window}
	}
	x.hold, x.now, x.committed = hold, now, committed{names: x.names[:0], values: x.values[:0]}
}

// end drops the references to the client's input.
func (x *settler) end() {
	clear(x.values)
	x.hold = nil
}

// commitHold is RL.COMMIT.
func (c *Checker) commitHold(call *command.Call) {
	m := memory(call)
	x := &m.settling
	x.begin(c.book.InForce, call.Args[1], call.Now)
	defer x.end()
	if err := x.parse(call.Args[2:]); err != nil {
		call.Error(err.Error())
		return
	}
	c.book.Set() // waits until committed policies are known
	c.settleHold(call, m, x.how)
}

// cancelHold is RL.CANCEL.
func (c *Checker) cancelHold(call *command.Call) {
	c.settleHold(call, memory(call), engine.Settlement{State: reservation.Cancelled})
}

func (c *Checker) settleHold(call *command.Call, m *checkMemory, how engine.Settlement) {
	m.warm(call)
	m.key = append(append(m.key[:0], HoldPrefix...), call.Args[1]...)
	settled, err := call.Sess.Settle(call.Now, m.key, how)
	if err == nil {
		call.Sync = c.settledSync(call.Args[1])
		c.writeSettled(call, &settled)
		return
	}
	var bad badCall
	switch {
	case errors.As(err, &bad):
		call.Error("ERR " + bad.Error())
	case errors.Is(err, engine.ErrNoHold):
		c.noHold(call, call.Args[1])
	case errors.Is(err, engine.ErrNotIsolated): // the hold was made after its keys were isolated
		call.Err = err
		call.Error(ErrChanging.Error())
	default:
		call.Fail(err)
	}
}

// noHold replies that the hold does not exist. If id cannot be a hold's name, such as an ID
// alone, or a name without the slot, it adds how holds are named.
func (c *Checker) noHold(call *command.Call, id []byte) {
	text := fmt.Sprintf("NOHOLD there is no hold '%s'", command.Clip(id, command.ErrorClip))
	name, _, ok := cutHold(id)
	if !ok {
		text += ", the name of a hold is policy;id"
	} else if _, ok := slotOfHold(id); !ok && c.homes.Several() {
		if set, _ := c.book.Current(); set.Policy(name) != nil && set.Policy(name).Home() != "" {
			text += ", the name of a hold of this policy is policy;id;slot"
		}
	}
	call.Error(text)
}

// settledSync returns what the reply of a settlement waits for: what its policy says.
func (c *Checker) settledSync(id []byte) command.SyncMode {
	name, _, _ := cutHold(id)
	set, _ := c.book.Current()
	if p := set.Policy(name); p != nil {
		return durability(p, command.SyncDefault)
	}
	return command.SyncDefault
}

// cutHold returns the policy's name and the id of a hold.
func cutHold(hold []byte) (name, id []byte, ok bool) {
	for i, c := range hold {
		if c == ';' {
			return hold[:i], hold[i+1:], true
		}
	}
	return hold, nil, false
}

// committed are the arguments of RL.COMMIT: the real cost of the call.
type committed struct {
	names  []string
	values [][]byte
	units  int64
	given  bool // units are given
}

func (c *committed) parse(args [][]byte) error {
	for ; len(args) > 0; args = args[2:] {
		if len(args) < 2 {
			if command.EqualFold(args[0], "cost") {
				return command.ErrSyntax
			}
			return fmt.Errorf("ERR attribute '%s' has no value", command.Clip(args[0], command.ErrorClip))
		}
		if command.EqualFold(args[0], "cost") {
			n, err := strconv.ParseInt(string(args[1]), 10, 64)
			switch {
			case c.given:
				return wire.GivenTwice("COST")
			case err != nil || n < 0 || n > policy.MaxUnits:
				return fmt.Errorf("ERR COST must be a whole number from 0 to %d", policy.MaxUnits)
			}
			c.units, c.given = n, true
			continue
		}
		name := string(args[0])
		for _, other := range c.names {
			if other == name {
				return fmt.Errorf("ERR attribute '%s' is given twice", command.Clip(args[0], command.ErrorClip))
			}
		}
		if len(c.names) == policy.MaxAttributes {
			return fmt.Errorf("ERR at most %d attributes in a call", policy.MaxAttributes)
		}
		c.names, c.values = append(c.names, name), append(c.values, args[1])
	}
	return nil
}

// accepts refuses an attribute that is neither a cost of the hold nor used by its policy: a
// mistyped name must not settle the estimate. Other attributes of the policy may be
// repeated. If the policy was edited since, nobody knows which it had, and all are
// accepted.
func (x *settler) accepts(r *reservation.Record) error {
	if len(x.names) == 0 {
		return nil
	}
	policyName, _, _ := cutHold(x.hold)
	p := x.set().Policy(policyName)
	if p == nil || p.Version != r.Version {
		return nil
	}
	var costs []string
	for i := range r.Limits {
		if by := r.Limits[i].CostBy; by != "" && !slices.Contains(costs, by) {
			costs = append(costs, by)
		}
	}
	for _, name := range x.names {
		if slices.Contains(costs, name) || p.Knows([]byte(name)) {
			continue
		}
		if len(costs) == 0 {
			return badCall{fmt.Errorf("attribute '%s' is not a cost of the hold, use COST", command.Clip([]byte(name), command.ErrorClip))}
		}
		return badCall{fmt.Errorf("attribute '%s' is not a cost of the hold, use %s", command.Clip([]byte(name), command.ErrorClip), strings.Join(costs, ", "))}
	}
	return nil
}

// cost returns the real cost of the call for a limit.
func (c *committed) cost(l *reservation.Held) (cost int64, ok bool, err error) {
	if l.CostBy == "" {
		high, low := bits.Mul64(uint64(l.Each), uint64(c.units))
		if high != 0 || low > uint64(policy.MaxUnits) {
			return 0, false, badCall{fmt.Errorf("COST of limit '%s' is above %d", l.Name, policy.MaxUnits)}
		}
		return int64(low), c.given, nil
	}
	for i, name := range c.names {
		if name != l.CostBy || len(c.values[i]) == 0 { // an empty value is as absent, as in every call
			continue
		}
		cost, ok := policy.ParseCost(c.values[i])
		if !ok {
			return 0, false, badCall{fmt.Errorf("attribute '%s' is a cost: its value must be a whole number from 0 to %d", name, policy.MaxUnits)}
		}
		return cost, true, nil
	}
	return 0, false, nil
}

// limit returns the limit that now decides calls on the counter of a hold. If the policy
// has no such limit, or the key does not show which it is, these are the numbers that the
// hold was charged under.
func (x *settler) limit(held *reservation.Held) algo.Limit {
	limit := held.Limit
	l, pairs := limitOf(x.set(), held)
	if l == nil {
		return limit
	}
	if may, ok := policy.NewCall().Counter(l, held.Key, pairs, x.now, nil); ok && len(may) == 1 && may[0].Rate.Kind == policy.Limited {
		return EngineLimit(l, may[0].Numbers)
	}
	limit.Resets, limit.Scalings = uint16(l.Epoch.Reset), uint16(l.Epoch.Proportion)
	return limit
}

// window returns the window of the calendar of a held limit, nil for none.
func (x *settler) window(held *reservation.Held) *algo.Window {
	if l, _ := limitOf(x.set(), held); l != nil {
		return Window(l, x.now)
	}
	return nil
}

// limitOf returns the limit that a hold has charged, and the pairs in its key. The limit is
// nil if the policy no longer has one with this id.
func limitOf(set *policy.Set, held *reservation.Held) (*policy.Limit, []policy.Pair) {
	name, id, pairs, ok := policy.ParseKey(held.Key)
	if !ok {
		return nil, nil
	}
	return set.Policy([]byte(name)).LimitWithID(id), pairs
}
