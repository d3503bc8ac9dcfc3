package wire

import (
	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/resp"
	"github.com/headgate-io/headgate/server/command"
)

// OpenFields opens a reply of n named values: a map in RESP3, in RESP2 an
// array of the values alone.
func OpenFields(w *resp.Writer, n int) {
	if w.RESP3 {
		w.Map(n)
	} else {
		w.Array(n)
	}
}

// OpenDecision opens the reply of a limit, which in RESP3 tells when the limit
// was not asked; CloseDecision ends it.
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

// field writes the name of the next value, where the protocol has names.
func Field(w *resp.Writer, name string) {
	if w.RESP3 {
		w.BulkString(name)
	}
}

func IntField(w *resp.Writer, name string, n int64) {
	Field(w, name)
	w.Int(n)
}

// DecisionFields is how many fields a reply has about one decision.
const DecisionFields = 6

// WriteDecision writes the fields of one decision, with the delay in ns in the
// place of its own; with ATMOST, allowed is the amount granted.
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
