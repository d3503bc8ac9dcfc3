package web

import (
	"strconv"

	"github.com/headgate-io/headgate/server/verdict"
)

// setFields sets the header fields of the verdict. key is a number that is constant for a
// caller. The values share memory with the exchange; net/http copies them when it writes
// the header.
func (x *exchange) setFields(key uint64) {
	h := x.w.Header()
	x.fields = x.verdict.Fields(x.asked, key)
	for i, name := range verdict.FieldNames {
		if x.fields[i] != "" {
			h[name] = x.fields[i : i+1 : i+1]
		}
	}
}

// appendVerdict appends a verdict as JSON. The fields are those of RL.CHECK's reply, with
// true and false for 1 and 0, and also degraded.
func appendVerdict(b []byte, v *verdict.Verdict) []byte {
	b = appendDecision(append(b, '{'), &v.Decision)
	b = appendName(append(b, `,"name":`...), v.Name)
	b = appendText(append(b, `,"reason":`...), v.Reason)
	b = appendName(append(b, `,"hold":`...), v.Hold)
	b = strconv.AppendInt(append(b, `,"version":`...), v.Version, 10)
	b = strconv.AppendInt(append(b, `,"applied":`...), v.Applied, 10)
	b = append(b, `,"limits":[`...)
	for i := range v.Limits {
		l := &v.Limits[i]
		if i > 0 {
			b = append(b, ',')
		}
		b = append(appendText(append(b, `{"name":`...), l.Name), ',')
		b = appendDecision(b, &l.Decision)
		b = strconv.AppendInt(append(b, `,"cost":`...), l.Cost, 10)
		b = appendText(append(b, `,"mode":`...), l.Mode)
		b = strconv.AppendInt(append(b, `,"status":`...), l.Status, 10)
		b = append(strconv.AppendInt(append(b, `,"window_ms":`...), l.Window, 10), '}')
	}
	b = append(b, `],"soft":[`...)
	for i, name := range v.Soft {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendText(b, name)
	}
	b = append(b, ']')
	if v.HasOver {
		b = strconv.AppendInt(append(b, `,"over":`...), v.Over, 10)
	}
	return append(strconv.AppendBool(append(b, `,"degraded":`...), v.Degraded), '}')
}

// appendDecision appends the six fields of a decision.
func appendDecision(b []byte, d *verdict.Decision) []byte {
	b = strconv.AppendBool(append(b, `"allowed":`...), d.Allowed)
	b = strconv.AppendInt(append(b, `,"limit":`...), d.Limit, 10)
	b = strconv.AppendInt(append(b, `,"remaining":`...), d.Remaining, 10)
	b = strconv.AppendInt(append(b, `,"retry_after_ms":`...), d.RetryAfter, 10)
	b = strconv.AppendInt(append(b, `,"reset_after_ms":`...), d.ResetAfter, 10)
	return strconv.AppendInt(append(b, `,"delay_ms":`...), d.Delay, 10)
}

// appendName appends a text, or null.
func appendName(b, name []byte) []byte {
	if name == nil {
		return append(b, "null"...)
	}
	return appendText(b, name)
}
