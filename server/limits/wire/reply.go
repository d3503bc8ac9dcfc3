package wire

import (
	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/resp"
	"github.com/headgate-io/headgate/server/command"
)

// OpenFields opens a reply of n named values: a map in RESP3, an array of the values in
// RESP2.
func OpenFields(w *resp.Writer, n int) {
	if w.RESP3 {
		w.Map(n)
	} else {
		w.Array(n)
	}
}

// OpenDecision opens the reply of a limit. In RESP3 it also says whether the failure
// policy has decided. CloseDecision ends the reply.
func OpenDecision(call *command.Call, fields int) {
	if call.Degraded && call.W.RESP3 {
		fields++
	}
	OpenFields(call.W, fields)
}

func CloseDecision(call *command.Call) {
	if call.Degraded && call.W.RESP3 {
		Field(call.W, "degraded")
		call.W.Bool(true)
	}
}

// Field writes the name of the next value, if the protocol has names.
func Field(w *resp.Writer, name string) {
	if w.RESP3 {
		w.BulkString(name)
	}
}

func IntField(w *resp.Writer, name string, n int64) {
	Field(w, name)
	w.Int(n)
}

// DecisionFields is the number of fields about one decision.
const DecisionFields = 6

// WriteDecision writes the fields of one decision. delay, in ns, replaces the decision's
// own. With ATMOST, allowed is the granted amount.
func WriteDecision(w *resp.Writer, d *algo.Decision, delay int64, atMost bool) {
	allowed := command.Truth(d.OK)
	if atMost {
		allowed = d.Allowed
	}
	IntField(w, "allowed", allowed)
	IntField(w, "limit", d.Limit)
	IntField(w, "remaining", d.Remaining)
	IntField(w, "retry_after_ms", command.CeilMillis(d.RetryAfter))
	IntField(w, "reset_after_ms", command.CeilMillis(d.ResetAfter))
	IntField(w, "delay_ms", command.CeilMillis(delay))
}
