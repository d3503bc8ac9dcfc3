package data

import (
	"errors"
	"strconv"

	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/engine/packed"
	"github.com/headgate-io/headgate/resp"
	"github.com/headgate-io/headgate/server/command"
	"github.com/headgate-io/headgate/server/glob"
)

// HSCAN, SSCAN and ZSCAN reply a whole collection at once, as Redis does for a small one.
// This is possible because a value's size is bounded, so the collection fits a reply. A
// collection read in one step has no missing or repeated entries, even if another node
// answers the next call. The cursor in the reply is 0, and the cursor in the call is
// ignored.

// stepsOfEntry is how many steps of matching a pattern take as long as one entry. A step
// takes a few nanoseconds.
const stepsOfEntry = 32

var errCursor = errors.New("ERR invalid cursor")

// scanCall is a call of HSCAN, SSCAN or ZSCAN that is being answered.
type scanCall struct {
	pattern *glob.Pattern // nil matches all
	w       resp.Writer   // the elements; their number is known only at the end
	n       int
}

// matches reports whether the pattern matches the entry's name.
func (s *scanCall) matches(name []byte) bool {
	return s.pattern == nil || s.pattern.Match(string(name))
}

// add adds an element to the reply.
func (s *scanCall) add(b []byte) {
	s.w.Bulk(b)
	s.n++
}

// scanner returns the handler of a command that scans a collection of the given kind.
// collect adds the matching entries to s.
func scanner(kind algo.Algorithm, collect func(s *scanCall, b packed.Buffer)) command.Handler {
	return func(call *command.Call) {
		if !isCursor(call.Args[2]) {
			call.Error(errCursor.Error())
			return
		}
		r, ok := read(call, call.Args[1], kind)
		if !ok {
			return
		}
		defer r.close()
		var s scanCall
		if packed.Len(r.Bytes()) > 0 {
			// As in Redis, the options are not read for an absent key.
			if err := s.parse(call.Args[3:]); err != nil {
				call.Error(err.Error())
				return
			}
			if s.pattern != nil && call.Long(s.pattern.Steps(len(r.Bytes()))/stepsOfEntry) {
				r.close()
				call.Leave()
				return
			}
			collect(&s, r.Buffer)
		}
		call.W.Array(2)
		call.W.BulkString("0")
		call.W.Array(s.n)
		call.W.B = append(call.W.B, s.w.B...)
	}
}

// isCursor reports whether C's function strtoul would read all of b as one number.
func isCursor(b []byte) bool {
	if len(b) == 0 {
		return true // strtoul reads an empty text as 0
	}
	if b[0] == '-' || b[0] == '+' {
		b = b[1:]
	}
	_, err := strconv.ParseUint(string(b), 10, 64)
	return err == nil
}

func (s *scanCall) parse(args [][]byte) error {
	for ; len(args) > 0; args = args[2:] {
		if len(args) < 2 {
			return command.ErrSyntax
		}
		switch {
		case command.EqualFold(args[0], "match"):
			pattern, err := glob.Compile(string(args[1]))
			if err != nil {
				return command.EngineError(err)
			}
			s.pattern = pattern
		case command.EqualFold(args[0], "count"):
			n, err := parseInt(args[1])
			if err != nil {
				return err
			}
			if n < 1 {
				return command.ErrSyntax
			}
		default:
			return command.ErrSyntax
		}
	}
	return nil
}
