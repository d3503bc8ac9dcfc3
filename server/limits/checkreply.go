package limits

import (
	"fmt"
	"slices"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/policy"
	"github.com/headgate-io/headgate/resp"
	"github.com/headgate-io/headgate/server/command"
)

// # Replies of checks
//
// A reply has ten values for each limit, and most of its bytes are the same call
// after call: names, and in RESP3 the names of values. What lies between two
// values is made once, so that a reply is a row of copies and digits.

// none are the values of a call that no enforced limit stands for.
var none = engine.Decision{Limit: -1, Remaining: -1}

// checkFields is how many fields the reply of RL.CHECK has, limitFields that
// about a limit.
const (
	checkFields = decisionFields + 7
	limitFields = decisionFields + 4
	// limitRoom is about how many bytes a reply has for a limit, names left out.
	limitRoom = 256
)

// joints are what lies between the values of a reply, from the end of the one to
// the beginning of the other.
type joints struct {
	resp2 bool
	first string                     // before allowed
	inner [decisionFields - 1]string // between those of a decision
	// Behind a decision: name and, from behind that, up to the version.
	name, reason, version, applied, limits, soft string
	// Of a limit: cost, and from behind it up to the status.
	cost  string
	modes [policy.Off + 1]string
}

// protocols are the joints in RESP2 and in RESP3.
var protocols = [2]joints{newJoints(false), newJoints(true)}

// protocol is the place of the protocol that w writes.
func protocol(w *resp.Writer) int {
	if w.RESP3 {
		return 1
	}
	return 0
}

func newJoints(resp3 bool) (j joints) {
	j.resp2 = !resp3
	w := &resp.Writer{RESP3: resp3}
	// before returns what field writes, between the end of the value before it
	// and its own beginning.
	before := func(end, name, begin string) string {
		w.B = w.B[:0]
		field(w, name)
		return end + string(w.B) + begin
	}
	const end = "\r\n"
	j.first = before("", "allowed", ":")
	for i, name := range []string{"limit", "remaining", "retry_after_ms", "reset_after_ms", "delay_ms"} {
		j.inner[i] = before(end, name, ":")
	}
	j.name, j.reason = before(end, "name", ""), before("", "reason", "")
	w.B = w.B[:0]
	w.Null()
	null := string(w.B)
	j.version = before("", "hold", null) + before("", "version", ":")
	j.applied, j.limits, j.soft = before(end, "applied", ":"), before(end, "limits", "*"), before("", "soft", "")
	j.cost = before(end, "cost", ":")
	for m := range j.modes {
		j.modes[m] = before(end, "mode", bulk(policy.Mode(m).String())) + before("", "status", ":")
	}
	return j
}

// bulk returns a string as it is written.
func bulk(s string) string { return fmt.Sprintf("$%d\r\n%s\r\n", len(s), s) }

// limitForm is what replies about a limit have alike: its name, and what the part
// about it begins with in either protocol, up to the value of allowed.
type limitForm struct {
	name string
	open [2]string
}

func newLimitForm(l *policy.Limit) (f limitForm) {
	f.name = bulk(l.Name)
	for i := range f.open {
		w := &resp.Writer{RESP3: i == 1}
		openFields(w, limitFields)
		field(w, "name")
		f.open[i] = string(w.B) + f.name + protocols[i].first
	}
	return f
}

// appendDecision appends the six values, from the first digit to the last.
func (j *joints) appendDecision(b []byte, d *engine.Decision, delay int64) []byte {
	if j.resp2 { // the same, with what is between two integers written in place
		b = append(b, byte('0'+command.Truth(d.OK)), '\r', '\n', ':')
		b = append(resp.AppendInt(b, d.Limit), '\r', '\n', ':')
		b = append(resp.AppendInt(b, d.Remaining), '\r', '\n', ':')
		b = append(resp.AppendInt(b, command.CeilMillis(d.RetryAfter)), '\r', '\n', ':')
		b = append(resp.AppendInt(b, command.CeilMillis(d.ResetAfter)), '\r', '\n', ':')
		return resp.AppendInt(b, command.CeilMillis(delay))
	}
	b = append(b, byte('0'+command.Truth(d.OK)))
	b = resp.AppendInt(append(b, j.inner[0]...), d.Limit)
	b = resp.AppendInt(append(b, j.inner[1]...), d.Remaining)
	b = resp.AppendInt(append(b, j.inner[2]...), command.CeilMillis(d.RetryAfter))
	b = resp.AppendInt(append(b, j.inner[3]...), command.CeilMillis(d.ResetAfter))
	return resp.AppendInt(append(b, j.inner[4]...), command.CeilMillis(delay))
}

// write replies the answer.
func (a *answer) write(call *command.Call) {
	w := call.W
	d := none
	if a.binding >= 0 {
		d = a.each[a.binding].Decision
	}
	if d.OK = a.ok; !d.OK && a.binding < 0 {
		d.RetryAfter = engine.Never
	}
	openDecision(call, checkFields)
	at := protocol(w)
	j, known := &protocols[at], knownOf(a.policy)

	b := slices.Grow(w.B, limitRoom*(1+len(a.applied)))
	b = j.appendDecision(append(b, j.first...), &d, a.delay)
	b = append(b, j.name...)
	if a.binding >= 0 {
		b = append(b, known.limits[a.applied[a.binding].Limit.Index].name...)
	} else {
		w.B = b
		w.Null()
		b = w.B
	}
	b = append(append(b, j.reason...), '$', byte('0'+len(a.reason)), '\r', '\n')
	b = append(append(b, a.reason...), "\r\n"...)
	b = resp.AppendInt(append(b, j.version...), int64(a.policy.Version))
	b = resp.AppendInt(append(b, j.applied...), int64(len(a.applied)))
	b = resp.AppendInt(append(b, j.limits...), int64(len(a.applied)))
	b = append(b, "\r\n"...)
	for i := range a.applied {
		b = append(b, known.limits[a.applied[i].Limit.Index].open[at]...)
		b = a.appendLimit(b, j, i)
	}
	w.B = append(b, j.soft...)
	a.writeSoft(w)
	closeDecision(call)
}

// appendLimit appends what one limit says, from the first of its six values on:
// these, its cost and mode, and the HTTP status that stands for it, 200 where it
// passes.
func (a *answer) appendLimit(b []byte, j *joints, i int) []byte {
	l, d := &a.applied[i], &a.each[i].Decision
	b = j.appendDecision(b, d, d.Delay)
	b = resp.AppendInt(append(b, j.cost...), l.Cost)
	b = resp.AppendInt(append(b, j.modes[l.Numbers.Mode]...), int64(a.status(i)))
	return append(b, "\r\n"...)
}

// status is the HTTP status that stands for what a limit says, 200 where it
// passes.
func (a *answer) status(i int) int {
	l, d := &a.applied[i], &a.each[i].Decision
	switch {
	case l.Missing && l.Limit.Status == 0:
		return 403
	case !d.OK:
		return l.Limit.StatusOf(d.RetryAfter == engine.Never)
	}
	return 200
}

// writeSoft writes the names of the soft limits that are over.
func (a *answer) writeSoft(w *resp.Writer) {
	over := 0
	for i := range a.applied {
		if a.soft(i) {
			over++
		}
	}
	w.Array(over)
	if over == 0 {
		return
	}
	for i := range a.applied {
		if a.soft(i) {
			w.BulkString(a.applied[i].Limit.Name)
		}
	}
}

func (a *answer) soft(i int) bool {
	return a.each[i].Over && a.applied[i].Numbers.Mode == policy.Soft
}
