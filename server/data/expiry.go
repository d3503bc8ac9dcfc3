package data

import (
	"time"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/resp"
	"github.com/headgate-io/headgate/server/command"
)

// expiry is the option EX, PX, EXAT or PXAT of a command. The zero value means that there
// is no such option.
type expiry struct {
	option string // in lower case
	value  []byte
}

// is notes the option called name, and reports whether it is one of expiry's options. As in
// Redis, an option may be repeated, but two different ones are an error.
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

// deadline returns the engine time at which the key expires; engine.NoExpiry if there is no
// option. Its errors are replies.
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
