package limits

import (
	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/policy"
	"github.com/headgate-io/headgate/server/command"
)

// # Replies about holds
//
// They have the fields of RL.CHECK, and are written field by field.

// heldFields are those of a reply up to its limits.
type heldFields struct {
	engine.Decision        // of the limit called name
	delay           int64  // of all
	name            string // "" for none
	reason          string
	hold            []byte // nil for none
	version         uint64
	applied         int
	denied          bool
}

// write opens a reply with some fields, and writes those up to the limits.
func (f *heldFields) write(call *command.Call, fields int) {
	w, d := call.W, f.Decision
	if f.name == "" {
		d = none
	}
	d.OK = !f.denied
	openDecision(call, fields)
	writeDecision(w, &d, f.delay, false)
	field(w, "name")
	if f.name == "" {
		w.Null()
	} else {
		w.BulkString(f.name)
	}
	field(w, "reason")
	w.BulkString(f.reason)
	field(w, "hold")
	if f.hold == nil {
		w.Null()
	} else {
		w.Bulk(f.hold)
	}
	intField(w, "version", int64(f.version))
	intField(w, "applied", int64(f.applied))
	field(w, "limits")
}

// writeHeld replies the answer of a call that passes and is held.
func (a *answer) writeHeld(call *command.Call, hold []byte) {
	w := call.W
	f := heldFields{delay: a.delay, reason: a.reason, hold: hold, version: a.policy.Version, applied: len(a.applied)}
	if a.binding >= 0 {
		f.name, f.Decision = a.applied[a.binding].Limit.Name, a.each[a.binding].Decision
	}
	f.write(call, checkFields)
	w.Array(len(a.applied))
	at, known, over := protocol(w), knownOf(a.policy), 0
	for i := range a.applied {
		form := known.limits[a.applied[i].Limit.Index].limitForm
		w.B = a.appendLimit(append(w.B, form.open[at]...), &protocols[at], i)
		over += int(command.Truth(a.soft(i)))
	}
	field(w, "soft")
	a.writeSoft(w, over)
	closeDecision(call)
}

// settledFields is how many fields the reply of a settlement has.
const settledFields = checkFields + 1

// writeSettled replies what a settlement says: what RL.CHECK does, and by how much
// the limit that is the deepest in debt is over.
func writeSettled(call *command.Call, a *engine.Settled) {
	w := call.W
	f := heldFields{a.Decision, a.Delay, a.Name, a.State.String(), call.Args[1], a.Version, a.Applied, false}
	f.write(call, settledFields)
	w.Array(len(a.Each))
	for i := range a.Each {
		l := &a.Limits[i]
		openFields(w, limitFields)
		field(w, "name")
		w.BulkString(l.Name)
		writeDecision(w, &a.Each[i], a.Each[i].Delay, false)
		intField(w, "cost", a.Costs[i])
		field(w, "mode")
		w.BulkString(policy.Mode(l.Mode).String())
		intField(w, "status", 200)
	}
	field(w, "soft")
	w.Array(0)
	intField(w, "over", a.Over)
	closeDecision(call)
}

// writeRepeated replies what a call was answered when it was made, without its
// limits; or, where its slots have ended and there is no room for them, that it is
// denied. key is that of its record.
func writeRepeated(call *command.Call, r *engine.Reservation, slots *engine.Renewed, key []byte) {
	w := call.W
	f := heldFields{r.First.Decision, r.First.Delay, r.First.Name, reasonOK, key[len(holdPrefix):], r.Version, r.Applied, false}
	switch {
	case slots.Denied:
		f = heldFields{slots.Decision, 0, slots.Name, "limit", nil, r.Version, r.Applied, true}
	case r.Listed:
		f.reason = "allow"
	}
	if r.State == engine.HoldNone {
		f.hold = nil
	}
	f.write(call, checkFields)
	w.Array(0)
	field(w, "soft")
	w.Array(0)
	closeDecision(call)
}
