package sequence

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Conns is the number of connections that a sequence uses.
const Conns = 3

// Step is one command on one connection, or a wait.
type Step struct {
	Conn int      // 0 … Conns-1
	Args []string // the command; none is a wait
	// Wait is how long nothing is sent, if there is no command.
	Wait time.Duration
	// Joined says that the command leaves in one write with the one before it,
	// which is on the same connection.
	Joined bool
	// Scan says that the command is repeated with the cursor that it replied,
	// until that is 0. Cursor is the position of that argument.
	Scan   bool
	Cursor int
}

// Name is the command in upper case, and "" for a wait.
func (s *Step) Name() string {
	if len(s.Args) == 0 {
		return ""
	}
	return strings.ToUpper(s.Args[0])
}

// String shows the step as redis-cli takes it, with the connection before it.
func (s Step) String() string {
	if len(s.Args) == 0 {
		return fmt.Sprintf("wait %v", s.Wait)
	}
	words := make([]string, len(s.Args))
	for i, a := range s.Args {
		words[i] = quote(a)
	}
	how := ">"
	if s.Joined {
		how = "+"
	}
	return fmt.Sprintf("%d%s %s", s.Conn, how, strings.Join(words, " "))
}

// quote puts an argument into double quotes if it needs them.
func quote(a string) string {
	for i := 0; i < len(a); i++ {
		if c := a[i]; c <= ' ' || c > '~' || c == '"' || c == '\\' || c == '\'' {
			return strconv.Quote(a)
		}
	}
	if a == "" {
		return `""`
	}
	return a
}

// Arguments that stand for a time on the wall: so many seconds, or
// milliseconds, after the moment at which the command is sent.
const (
	inSeconds      = "@s+"
	inMilliseconds = "@ms+"
)

// Resolve returns the arguments as they are sent at a time: with the times that
// they stand for.
func (s *Step) Resolve(now time.Time) []string {
	var out []string
	for i, a := range s.Args {
		unit, text, at := time.Second, "", int64(0)
		if rest, ok := strings.CutPrefix(a, inSeconds); ok {
			text, at = rest, now.Unix()
		} else if rest, ok := strings.CutPrefix(a, inMilliseconds); ok {
			text, at, unit = rest, now.UnixMilli(), time.Millisecond
		} else {
			continue
		}
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			continue
		}
		if unit == time.Second && n > 0 {
			at++ // so that it is surely ahead
		}
		if out == nil {
			out = append(out, s.Args...)
		}
		out[i] = strconv.FormatInt(at+n, 10)
	}
	if out == nil {
		return s.Args
	}
	return out
}
