package limits

import (
	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/policy"
	"github.com/headgate-io/headgate/resp"
	"github.com/headgate-io/headgate/server/command"
)

// none are the values of a call that no enforced limit stands for.
var none = engine.Decision{Limit: -1, Remaining: -1}

// checkFields is how many fields the reply of RL.CHECK has.
const checkFields = decisionFields + 7

// write replies the answer.
func (a *answer) write(call *command.Call) {
	w := call.W
	d := none
	if a.binding >= 0 {
		d = a.each[a.binding].Decision
	}
	if d.OK = a.ok; !d.OK && a.binding < 0 {
		d.RetryAfter = engine.Never
	}
	openDecision(call, checkFields)
	writeDecision(w, &d, a.delay, false)
	field(w, "name")
	if a.binding >= 0 {
		w.BulkString(a.applied[a.binding].Limit.Name)
	} else {
		w.Null()
	}
	field(w, "reason")
	w.BulkString(a.reason)
	field(w, "hold")
	w.Null()
	intField(w, "version", int64(a.policy.Version))
	intField(w, "applied", int64(len(a.applied)))
	field(w, "limits")
	w.Array(len(a.applied))
	for i := range a.applied {
		a.writeLimit(w, i)
	}
	field(w, "soft")
	a.writeSoft(w)
	closeDecision(call)
}

// writeLimit writes what one limit says: its name, the six values, cost, mode,
// and the HTTP status that stands for it, 200 where it passes.
func (a *answer) writeLimit(w *resp.Writer, i int) {
	l, d := &a.applied[i], &a.each[i].Decision
	openFields(w, decisionFields+4)
	field(w, "name")
	w.BulkString(l.Limit.Name)
	writeDecision(w, d, d.Delay, false)
	intField(w, "cost", l.Cost)
	field(w, "mode")
	w.BulkString(l.Numbers.Mode.String())
	intField(w, "status", int64(a.status(i)))
}

// status is the HTTP status that stands for what one limit says.
func (a *answer) status(i int) int {
	l, d := &a.applied[i], &a.each[i].Decision
	switch {
	case l.Missing && l.Limit.Status == 0:
		return 403
	case d.OK:
		return 200
	}
	return l.Limit.StatusOf(d.RetryAfter == engine.Never)
}

// writeSoft writes the names of the soft limits that are over.
func (a *answer) writeSoft(w *resp.Writer) {
	over := 0
	for i := range a.applied {
		if a.soft(i) {
			over++
		}
	}
	w.Array(over)
	for i := range a.applied {
		if a.soft(i) {
			w.BulkString(a.applied[i].Limit.Name)
		}
	}
}

func (a *answer) soft(i int) bool {
	return a.each[i].Over && a.applied[i].Numbers.Mode == policy.Soft
}
