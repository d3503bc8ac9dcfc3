package limits

import (
	"github.com/headgate-io/headgate/resp"

	"github.com/headgate-io/headgate/server/command"
)

// openFields opens a reply of n named values: a map in RESP3, in RESP2 an
// array of the values alone.
func openFields(w *resp.Writer, n int) {
	if w.RESP3 {
		w.Map(n)
	} else {
		w.Array(n)
	}
}

// openDecision opens the reply of a limit, which in RESP3 tells when the limit
// was not asked; closeDecision ends it.
func openDecision(call *command.Call, fields int) {
	if call.Degraded && call.W.RESP3 {
		fields++
	}
	openFields(call.W, fields)
}

func closeDecision(call *command.Call) {
	if call.Degraded && call.W.RESP3 {
		field(call.W, "degraded")
		call.W.Bool(true)
	}
}

// field writes the name of the next value, where the protocol has names.
func field(w *resp.Writer, name string) {
	if w.RESP3 {
		w.BulkString(name)
	}
}

func intField(w *resp.Writer, name string, n int64) {
	field(w, name)
	w.Int(n)
}
