package checks

import (
	"fmt"
	"slices"

	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/policy"
	"github.com/headgate-io/headgate/resp"
	"github.com/headgate-io/headgate/server/command"
	"github.com/headgate-io/headgate/server/limits/wire"
)

// # Replies of checks
//
// A reply has ten values for each limit. Most of its bytes never change: names, and in
// RESP3 the names of values. The bytes between two values are made once, so that writing a
// reply is copying them and appending digits.

// none is the decision of a call for which no enforced limit stands.
var none = algo.Decision{Limit: -1, Remaining: -1}

// Numbers of fields: of RL.CHECK's reply, and of its part about one limit.
const (
	checkFields = wire.DecisionFields + 7
	limitFields = wire.DecisionFields + 5
	// limitRoom is about how many bytes a limit takes in a reply, without names.
	limitRoom = 256
)

// joints are the bytes between the values of a reply. Each runs from the end of one value
// to the start of the next.
type joints struct {
	resp2 bool
	open  string                          // of a reply that is not degraded, up to allowed
	first string                          // before allowed
	inner [wire.DecisionFields - 1]string // between those of a decision
	// After a decision: name, and from there up to the version.
	name, reason, version, applied, limits, soft string
	// In place of version, for a call that is held: up to the length of hold, and from the
	// end of hold up to the version.
	hold, held string
	// For a limit: cost, from there up to the status, and from there up to its window.
	cost   string
	modes  [policy.Off + 1]string
	window string
	// For a call that passes at once: allowed, up to limit; from remaining up to the time
	// of reset; the delay. For a limit that is charged one unit, also the bytes after the
	// delay, up to its window.
	passed, atOnce, undelayed string
	unit                      [policy.Off + 1]string
	// noSoft is the end of a reply in which no soft limit is over.
	noSoft string
}

// protocols are the joints in RESP2 and in RESP3.
var protocols = [2]joints{newJoints(false), newJoints(true)}

// protocol returns the index in protocols for the protocol that w writes.
func protocol(w *resp.Writer) int {
	if w.RESP3 {
		return 1
	}
	return 0
}

func newJoints(resp3 bool) (j joints) {
	j.resp2 = !resp3
	w := &resp.Writer{RESP3: resp3}
	// before returns the bytes that field writes between the end of the value before and
	// the start of its own.
	before := func(end, name, begin string) string {
		w.B = w.B[:0]
		wire.Field(w, name)
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
	j.hold, j.held = before("", "hold", "$"), before(end, "version", ":")
	j.applied, j.limits, j.soft = before(end, "applied", ":"), before(end, "limits", "*"), before("", "soft", "")
	j.cost, j.window = before(end, "cost", ":"), before(end, "window_ms", ":")
	for m := range j.modes {
		j.modes[m] = before(end, "mode", bulk(policy.Mode(m).String())) + before("", "status", ":")
		j.unit[m] = j.inner[4] + "0" + j.cost + "1" + j.modes[m] + "200" + j.window
	}
	j.passed, j.atOnce, j.undelayed = "1"+j.inner[0], j.inner[2]+"0"+j.inner[3], j.inner[4]+"0"
	w.B = w.B[:0]
	wire.OpenFields(w, checkFields)
	j.open = string(w.B) + j.first
	w.B = w.B[:0]
	w.Array(0)
	j.noSoft = j.soft + string(w.B)
	return j
}

// bulk returns a string in its wire form.
func bulk(s string) string { return fmt.Sprintf("$%d\r\n%s\r\n", len(s), s) }

// appendDecision appends the six values, from the first digit to the last.
func (j *joints) appendDecision(b []byte, d *algo.Decision, delay int64) []byte {
	if j.resp2 { // the same, but with the bytes between two integers in place
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
		d.RetryAfter = algo.Never
	}
	at, n := protocol(w), len(a.applied)
	j, known := &protocols[at], attachedTo(a.policy)
	b := slices.Grow(w.B, limitRoom*(1+n))
	if call.Degraded {
		w.B = b
		wire.OpenDecision(call, checkFields)
		b = append(w.B, j.first...)
	} else {
		b = append(b, j.open...)
	}
	from, to := 0, 0 // the part about the limit that stands for a call that passes at once
	if d.OK && d.RetryAfter|a.delay == 0 {
		from = len(b) + len(j.passed)
		b = j.appendPassed(append(b, j.passed...), &d)
		to = len(b)
		b = append(b, j.undelayed...)
	} else {
		b = j.appendDecision(b, &d, a.delay)
	}
	b = append(b, j.name...)
	if a.binding >= 0 {
		b = append(b, known.limits[a.applied[a.binding].Limit.Index].name...)
	} else {
		w.B = b
		w.Null()
		b = w.B
	}
	if n == len(known.limits) && a.reason == reasonOK && a.hold == nil {
		b = append(b, known.passed[at]...)
	} else {
		b = append(append(b, j.reason...), '$', byte('0'+len(a.reason)), '\r', '\n')
		b = append(append(b, a.reason...), "\r\n"...)
		if a.hold == nil {
			b = append(b, j.version...)
		} else {
			b = append(resp.AppendInt(append(b, j.hold...), int64(len(a.hold))), "\r\n"...)
			b = append(append(b, a.hold...), j.held...)
		}
		b = resp.AppendInt(b, int64(a.policy.Version))
		b = resp.AppendInt(append(b, j.applied...), int64(n))
		b = resp.AppendInt(append(b, j.limits...), int64(n))
		b = append(b, "\r\n"...)
	}
	over := 0
	for i := range a.applied {
		l, c := &a.applied[i], &a.each[i]
		form := &known.limits[l.Limit.Index]
		if c.OK && !c.Over && l.Cost == 1 && c.RetryAfter|c.Delay == 0 { // the usual case
			if u := form.usual; u != nil && l.Numbers == form.usually && c.Limit == u.limit {
				b = append(j.appendLeft(append(b, u.head[at]...), &c.Decision), u.tail[at]...)
				continue
			}
			b = append(b, form.passed[at]...)
			if i == a.binding && to > 0 {
				b = append(b, b[from:to]...)
			} else {
				b = j.appendPassed(b, &c.Decision)
			}
			b = append(b, j.unit[l.Numbers.Mode]...)
			b = append(resp.AppendInt(b, windowMillis(l, call.Now)), "\r\n"...)
			continue
		}
		b = a.appendLimit(append(b, form.open[at]...), j, i, call.Now)
		over += int(command.Truth(a.soft(i)))
	}
	if over == 0 {
		w.B = append(b, j.noSoft...)
	} else {
		w.B = append(b, j.soft...)
		a.writeSoft(w, over)
	}
	wire.CloseDecision(call)
}

// appendPassed appends the part of a limit that lets a call pass at once, from the value of
// limit to the time of reset.
func (j *joints) appendPassed(b []byte, d *algo.Decision) []byte {
	b = resp.AppendInt(b, d.Limit)
	if j.resp2 { // as in appendDecision
		return j.appendLeft(append(b, '\r', '\n', ':'), d)
	}
	return j.appendLeft(append(b, j.inner[1]...), d)
}

// appendLeft appends the part of appendPassed from the value of remaining on.
func (j *joints) appendLeft(b []byte, d *algo.Decision) []byte {
	b = resp.AppendInt(b, d.Remaining)
	if j.resp2 {
		b = append(b, "\r\n:0\r\n:"...)
	} else {
		b = append(b, j.atOnce...)
	}
	return resp.AppendInt(b, command.CeilMillis(d.ResetAfter))
}

// appendLimit appends the part of one limit from its six values on. Its cost, its mode, the
// HTTP status that stands for it (200 if it passes) and its window follow.
func (a *answer) appendLimit(b []byte, j *joints, i int, now int64) []byte {
	l, d := &a.applied[i], &a.each[i].Decision
	b = j.appendDecision(b, d, d.Delay)
	b = resp.AppendInt(append(b, j.cost...), l.Cost)
	b = resp.AppendInt(append(b, j.modes[l.Numbers.Mode]...), int64(a.status(i)))
	b = resp.AppendInt(append(b, j.window...), windowMillis(l, now))
	return append(b, "\r\n"...)
}

// windowMillis returns the time in which a limit admits its capacity, in ms, rounded up. It
// is 0 for a limit without a window.
func windowMillis(l *policy.Applied, now int64) int64 {
	if l.Limit.Calendar != nil {
		return calendarMillis(l.Limit, now)
	}
	return command.CeilMillis(refill(l))
}

// refill returns the time in which a limit without a calendar admits its capacity, in ns.
// It is 0 for a limit without a window.
func refill(l *policy.Applied) int64 {
	ready, ok := anyReady(l.Numbers)
	if !ok { // the numbers come from a SCALE
		return EngineLimit(l.Limit, l.Numbers).Window()
	}
	return ready.Window()
}

// calendarMillis returns the length of the window of a limit's calendar that contains now,
// in ms, rounded up. It is 0 without a calendar or a limit.
func calendarMillis(l *policy.Limit, now int64) int64 {
	if l == nil || l.Calendar == nil {
		return 0
	}
	begin, end := l.Calendar.Around(now)
	return command.CeilMillis(end - begin)
}

// status returns the HTTP status that stands for a limit's result, 200 if it passes.
func (a *answer) status(i int) int {
	l, d := &a.applied[i], &a.each[i].Decision
	switch {
	case l.Missing && l.Limit.Status == 0:
		return 403
	case !d.OK:
		return l.Limit.StatusOf(d.RetryAfter == algo.Never)
	}
	return 200
}

// writeSoft writes the names of the soft limits that are over.
func (a *answer) writeSoft(w *resp.Writer, over int) {
	w.Array(over)
	for i := range a.applied {
		if a.soft(i) {
			w.BulkString(a.applied[i].Limit.Name)
		}
	}
}

func (a *answer) soft(i int) bool {
	return a.each[i].Over && a.applied[i].Numbers.Mode == policy.Soft
}
