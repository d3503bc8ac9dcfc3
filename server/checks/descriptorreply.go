package checks

import (
	"math/bits"

	"github.com/headgate-io/headgate/resp"
	"github.com/headgate-io/headgate/server/command"
	"github.com/headgate-io/headgate/server/limits/wire"
)

// Numbers of fields: of RL.DESCRIPTORS's reply, and of its part about one descriptor.
const (
	rulingFields = 5
	statusFields = 10
)

// write replies the ruling.
func (r *ruling) write(call *command.Call) {
	w := call.W
	wire.OpenDecision(call, rulingFields)
	codeField(w, r.over)
	wire.IntField(w, "binding", int64(r.binding))
	wire.Field(w, "reason")
	w.BulkString(r.reason)
	wire.IntField(w, "version", int64(r.version))
	wire.Field(w, "descriptors")
	w.Array(len(r.statuses))
	for i := range r.statuses {
		r.statuses[i].write(w)
	}
	wire.CloseDecision(call)
}

// write adds the part about one descriptor.
func (s *status) write(w *resp.Writer) {
	wire.OpenFields(w, statusFields)
	codeField(w, s.over)
	limit := int64(-1)
	if s.limited {
		limit = s.limit.Requests
	}
	wire.IntField(w, "limit", limit)
	textField(w, "unit", s.limit.Unit.String())
	wire.IntField(w, "multiplier", max(s.limit.Multiplier, 1))
	textField(w, "name", s.name)
	wire.IntField(w, "remaining", s.left)
	wire.IntField(w, "reset_ms", command.CeilMillis(s.reset))
	wire.IntField(w, "retry_after_ms", command.CeilMillis(s.retry))
	wire.Field(w, "flags")
	w.Array(bits.OnesCount8(uint8(s.flags)))
	for i, word := range statusFlags {
		if s.flags&(1<<i) != 0 {
			w.BulkString(word)
		}
	}
	textField(w, "metadata", s.metadata)
}

func codeField(w *resp.Writer, over bool) {
	wire.Field(w, "code")
	if over {
		w.BulkString("over_limit")
	} else {
		w.BulkString("ok")
	}
}

// textField writes a text, or null for an empty one.
func textField(w *resp.Writer, name, text string) {
	wire.Field(w, name)
	if text == "" {
		w.Null()
	} else {
		w.BulkString(text)
	}
}
