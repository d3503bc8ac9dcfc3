package checks

import (
	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/engine/reservation"
	"github.com/headgate-io/headgate/resp"
	"github.com/headgate-io/headgate/server/command"
	"github.com/headgate-io/headgate/server/limits/wire"
)

// # Replies about holds
//
// They have the fields of RL.CHECK, and are written field by field.

// heldFields are the fields of such a reply before its limits.
type heldFields struct {
	algo.Decision        // of the limit that name names
	delay         int64  // the longest of all limits
	name          string // "" for none
	reason        string
	hold          []byte // nil for none
	version       uint64
	applied       int
	denied        bool
}

// write opens a reply with some fields, and writes those before the limits.
func (f *heldFields) write(call *command.Call, fields int) {
	w, d := call.W, f.Decision
	if f.name == "" {
		d = none
	}
	d.OK = !f.denied
	wire.OpenDecision(call, fields)
	wire.WriteDecision(w, &d, f.delay, false)
	wire.Field(w, "name")
	if f.name == "" {
		w.Null()
	} else {
		w.BulkString(f.name)
	}
	wire.Field(w, "reason")
	w.BulkString(f.reason)
	wire.Field(w, "hold")
	if f.hold == nil {
		w.Null()
	} else {
		w.Bulk(f.hold)
	}
	wire.IntField(w, "version", int64(f.version))
	wire.IntField(w, "applied", int64(f.applied))
	wire.Field(w, "limits")
}

// settledFields is how many fields the reply of a settlement has.
const settledFields = checkFields + 1

// writeSettled replies to a settlement: the fields of RL.CHECK, and by how much the limit
// with the largest debt is over.
func (c *Checker) writeSettled(call *command.Call, a *reservation.Settled) {
	w := call.W
	f := heldFields{a.Decision, a.Delay, a.Name, a.State.String(), call.Args[1], a.Version, a.Applied, false}
	f.write(call, settledFields)
	w.Array(len(a.Each))
	j := &protocols[protocol(w)]
	for i := range a.Each {
		l, d := &a.Limits[i], &a.Each[i]
		wire.OpenFields(w, limitFields)
		wire.Field(w, "name")
		w.BulkString(l.Name)
		out := j.appendDecision(append(w.B, j.first...), d, d.Delay)
		out = resp.AppendInt(append(out, j.cost...), a.Costs[i])
		out = append(append(append(out, j.modes[l.Mode]...), "200"...), j.window...)
		w.B = append(resp.AppendInt(out, c.settledWindow(l, a.Windows[i], call.Now)), "\r\n"...)
	}
	wire.Field(w, "soft")
	w.Array(0)
	wire.IntField(w, "over", a.Over)
	wire.CloseDecision(call)
}

// settledWindow is windowMillis for a limit that was charged under a window of so many ns.
func (c *Checker) settledWindow(held *reservation.Held, window, now int64) int64 {
	if window == 0 && held.Limit.Algorithm == algo.PolicyCalendar {
		l, _ := limitOf(c.book.InForce(), held)
		return calendarMillis(l, now)
	}
	return command.CeilMillis(window)
}

// writeRepeated replies what a call was answered when it was made, without its limits. If
// its slots have ended and no slots are free, the reply is a denial. key is the key of its
// record.
func writeRepeated(call *command.Call, r *reservation.Record, slots *engine.Renewed, key []byte) {
	f := heldFields{r.First.Decision, r.First.Delay, r.First.Name, reasonOK, key[len(HoldPrefix):], r.Version, r.Applied, false}
	switch {
	case slots.Denied:
		f = heldFields{slots.Decision, 0, slots.Name, "limit", nil, r.Version, r.Applied, true}
	case r.Listed:
		f.reason = "allow"
	case r.Applied == 0:
		f.reason = reasonNone
	}
	if r.State == reservation.None {
		f.hold = nil
	}
	f.writeAlone(call)
}

// writeAlone writes a reply without limits.
func (f *heldFields) writeAlone(call *command.Call) {
	f.write(call, checkFields)
	call.W.Array(0)
	wire.Field(call.W, "soft")
	call.W.Array(0)
	wire.CloseDecision(call)
}
