package verdict

import (
	"bytes"
	"strings"

	"github.com/headgate-io/headgate/resp"
	"github.com/headgate-io/headgate/server/command"
)

// Never is the RetryAfter of a call that can never pass, however long the caller waits.
const Never = -1

// Decision is the result of a limit: the six values of RL.LIMIT, in the limit's units and
// in milliseconds.
type Decision struct {
	Allowed                       bool
	Limit, Remaining              int64 // -1 if no limit decides the call
	RetryAfter, ResetAfter, Delay int64
}

// Limit is the part of a verdict about one of the limits that apply.
type Limit struct {
	Decision
	Name []byte
	Cost int64
	Mode []byte
	// Status is the HTTP status of the limit's result; 200 if the limit passes the call.
	Status int64
	// Window is the time, in ms, in which the limit admits Decision.Limit units; 0 if it
	// has no window or the window is unknown.
	Window int64
}

// Enforced reports whether the limit may deny a call.
func (l *Limit) Enforced() bool { return string(l.Mode) == "enforce" }

// Verdict is the reply of RL.CHECK or a similar command. Its byte slices refer to memory of
// the reply.
type Verdict struct {
	Decision
	Name    []byte // the limit that decides the call; nil if there is none
	Reason  []byte
	Hold    []byte // nil if there is none
	Version int64
	Applied int64
	Limits  []Limit
	Soft    [][]byte
	// Over is the reply of a settlement, if HasOver is set.
	Over    int64
	HasOver bool
	// Degraded reports that the failure policy has answered, because there was no leader.
	Degraded bool
}

// Error is an error reply.
type Error struct {
	// Code is the first word of the error, such as NOPOLICY. Text is the rest.
	Code, Text string
}

func (e *Error) Error() string { return e.Code + " " + e.Text }

// TooEarly reports whether the command is correct, but some node cannot run it yet, for
// example a leader of an older release.
func (e *Error) TooEarly() bool {
	return e.Error() == command.ErrNotYet || e.Code == "ERR" && strings.HasPrefix(e.Text, "unknown command ")
}

// ErrorOf returns an error reply as an *Error. It returns nil for other replies.
func ErrorOf(reply *resp.Reply) error {
	text := reply.Error()
	if text == "" {
		return nil
	}
	code, rest, _ := strings.Cut(text, " ")
	return &Error{code, rest}
}

// Binding returns the limit that decides the call. It returns nil if there is none, or if
// the reply has no limits.
func (v *Verdict) Binding() *Limit {
	if v.Name == nil {
		return nil
	}
	for i := range v.Limits {
		if bytes.Equal(v.Limits[i].Name, v.Name) {
			return &v.Limits[i]
		}
	}
	return nil
}

// Status returns the HTTP status of the verdict: 200 if the call passes, the status of the
// limit that denies, or 403 if a list denies.
func (v *Verdict) Status() int {
	if v.Allowed {
		return 200
	}
	if l := v.Binding(); l != nil && l.Status != 200 {
		return int(l.Status)
	}
	return 403
}

// Read reads the first of some complete replies, and returns the others. For an error reply
// it returns an *Error. For a reply that is not a verdict it returns resp.MalformedReply;
// then nothing after it can be read. Read overwrites v and reuses its memory.
func (v *Verdict) Read(replies []byte) (rest []byte, err error) {
	*v = Verdict{Limits: v.Limits[:0], Soft: v.Soft[:0]}
	r := reader{b: replies}
	if err := r.failure(); err != nil {
		return r.b, err
	}
	for range r.size('%') {
		switch name := r.text(); string(name) {
		case "name":
			v.Name = r.text()
		case "reason":
			v.Reason = r.text()
		case "hold":
			v.Hold = r.text()
		case "version":
			v.Version = r.number()
		case "applied":
			v.Applied = r.number()
		case "limits":
			for range r.size('*') {
				v.Limits = append(v.Limits, Limit{})
				r.limit(&v.Limits[len(v.Limits)-1])
			}
		case "soft":
			for range r.size('*') {
				v.Soft = append(v.Soft, r.text())
			}
		case "over":
			v.Over, v.HasOver = r.number(), true
		case "degraded":
			v.Degraded = string(r.line()) == "#t"
		default:
			r.decision(&v.Decision, name)
		}
	}
	if r.malformed {
		return nil, resp.MalformedReply(replies[:min(len(replies), 32)])
	}
	return r.b, nil
}

// reader reads the parts of a reply. After an unexpected part, malformed is set and all
// further parts are empty.
type reader struct {
	b         []byte
	malformed bool
}

// failure reads an error reply; it returns nil for other replies.
func (r *reader) failure() error {
	if len(r.b) == 0 || r.b[0] != '-' {
		return nil
	}
	code, text, _ := strings.Cut(string(r.line()[1:]), " ")
	return &Error{code, text}
}

// fail ends the reading because the reply is malformed.
func (r *reader) fail() { r.b, r.malformed = nil, true }

// line reads a line, and returns it without its line end.
func (r *reader) line() []byte {
	end := bytes.IndexByte(r.b, '\n')
	if end < 1 || r.b[end-1] != '\r' {
		r.fail()
		return []byte{0}
	}
	line := r.b[:end-1]
	r.b = r.b[end+1:]
	if len(line) == 0 {
		r.fail()
		return []byte{0}
	}
	return line
}

func (r *reader) parse(digits []byte) int64 {
	n, ok := resp.ParseInt(digits)
	if !ok {
		r.fail()
	}
	return n
}

// size reads the size of a collection whose type is kind. A size is malformed if it exceeds
// the bytes that remain, because each value takes more than a byte.
func (r *reader) size(kind byte) int {
	line := r.line()
	n := 0
	if line[0] == kind {
		n = int(r.parse(line[1:]))
	}
	if line[0] != kind || n < 0 || n > len(r.b) {
		r.fail()
		return 0
	}
	return n
}

func (r *reader) number() int64 {
	line := r.line()
	if line[0] != ':' {
		r.fail()
		return 0
	}
	return r.parse(line[1:])
}

// text reads a string; nil for null.
func (r *reader) text() []byte {
	line := r.line()
	if line[0] == '_' {
		return nil
	}
	n := -1
	if line[0] == '$' {
		n = int(r.parse(line[1:]))
	}
	if n < 0 || n > len(r.b)-len("\r\n") {
		r.fail()
		return nil
	}
	text := r.b[:n:n]
	r.b = r.b[n+len("\r\n"):]
	return text
}

// limit reads the part about one limit.
func (r *reader) limit(l *Limit) {
	for range r.size('%') {
		switch name := r.text(); string(name) {
		case "name":
			l.Name = r.text()
		case "cost":
			l.Cost = r.number()
		case "mode":
			l.Mode = r.text()
		case "status":
			l.Status = r.number()
		case "window_ms":
			l.Window = r.number()
		default:
			r.decision(&l.Decision, name)
		}
	}
}

// decision reads one of the six values by its name. It skips a value with another name.
func (r *reader) decision(d *Decision, name []byte) {
	switch string(name) {
	case "allowed":
		d.Allowed = r.number() == 1
	case "limit":
		d.Limit = r.number()
	case "remaining":
		d.Remaining = r.number()
	case "retry_after_ms":
		d.RetryAfter = r.number()
	case "reset_after_ms":
		d.ResetAfter = r.number()
	case "delay_ms":
		d.Delay = r.number()
	default:
		r.skip()
	}
}

// skip skips a value of any type, because a leader of a later release may send additional
// values.
func (r *reader) skip() {
	n, err := resp.ReplyLen(r.b, len(r.b))
	if err != nil || n == 0 {
		r.fail()
		return
	}
	r.b = r.b[n:]
}
