package script

import (
	"strings"

	"github.com/headgate-io/headgate/script/lua"
)

// cText ends a text at its first NUL, as Redis does with errors and statuses.
func cText(s string) string {
	s, _, _ = strings.Cut(s, "\x00")
	return s
}

// failure returns the table of an error, whose field err is a code and a text. If msg
// begins with '-', it contains a code, a space and the text. Otherwise msg is the text, and
// the code is ERR. The text ends at its first NUL.
func failure(t *lua.Thread, msg string) *lua.Table {
	code := "ERR"
	msg = cText(msg)
	if text, ok := strings.CutPrefix(msg, "-"); ok {
		msg = text
		if before, after, found := strings.Cut(text, " "); found {
			code, msg = before, after
		}
	}
	t.Step(len(msg) / 8)
	msg = strings.Trim(msg, "\r\n")
	t.Alloc(len(code) + len(msg))
	e := t.NewTable(0, 1)
	e.SetText(t, "err", lua.String(code+" "+msg))
	return e
}

// replied is failure for the error reply of a command, or for the refusal of a command.
func replied(t *lua.Thread, msg string) *lua.Table {
	e := failure(t, msg)
	e.SetText(t, "ignore_error_stats_update", lua.True)
	return e
}
