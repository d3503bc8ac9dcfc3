package data

import (
	"time"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/resp"
	"github.com/headgate-io/headgate/server/command"
)

// expiry is the EX, PX, EXAT or PXAT of a command; the zero value is none.
type expiry struct {
	option string // in lower case
	value  []byte
}

// is notes an option's name, and reports whether it is one. As in Redis an option may be
// repeated, but two different ones may not.
func (e *expiry) is(name []byte) bool {
	for _, option := range [...]string{"ex", "px", "exat", "pxat"} {
		if command.EqualFold(name, option) {
			if e.option != "" && e.option != option {
				return false
			}
			e.option = option
			return true
		}
	}
	return false
}

// deadline returns when the key expires, in engine time; engine.NoExpiry without an option.
// Its errors are replies.
func (e *expiry) deadline(call *command.Call) (int64, error) {
	if e.option == "" {
		return engine.NoExpiry, nil
	}
	n, ok := resp.ParseInt(e.value)
	if !ok {
		return 0, command.ErrNotInteger
	}
	unit := time.Second
	if e.option[0] == 'p' {
		unit = time.Millisecond
	}
	base := int64(0)
	if len(e.option) == len("ex") {
		base = call.Now
	}
	at, ok := command.AddSpan(base, n, unit)
	if !ok || n <= 0 {
		return 0, command.ErrInvalidExpire(call.Spec.Name)
	}
	return at, nil
}
