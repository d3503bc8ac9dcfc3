package envoy

import (
	"encoding/json"
	"net/http"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/headgate-io/headgate/policy"
	"github.com/headgate-io/headgate/server/verdict"
)

// answer returns the answer to Envoy. asked is the time when the exchange asked for the
// ruling.
func (x *exchange) answer(asked time.Time) message {
	r := &x.ruling
	b := appendVarint(make([]byte, 0, 256+64*len(r.Statuses)), responseCode, codeFor(r.Over))
	for i := range r.Statuses {
		var at int
		b, at = begin(b, responseStatuses)
		b = end(appendStatus(b, &r.Statuses[i]), at)
	}
	x.show()
	fields := x.shown.Fields(asked, x.key())
	for i, name := range headers {
		if name != "" && fields[i] != "" {
			b = appendHeader(b, name, fields[i])
		}
	}
	if r.Over {
		b = appendHeader(b, "cache-control", "no-store")
		b = x.appendProblem(b, http.StatusTooManyRequests, "")
	}
	return x.appendMetadata(b)
}

// refuse returns a denial for a request that its policy cannot decide, for example because
// an attribute is not an address. A client may have caused this. An error would let the
// client's request pass if Envoy's failure_mode_deny is false.
func (x *exchange) refuse(why string) message {
	x.ruling = verdict.Ruling{Binding: -1, Statuses: x.ruling.Statuses[:0]}
	b := appendVarint(nil, responseCode, codeOverLimit)
	for range x.asked.Descriptors {
		var at int
		b, at = begin(b, responseStatuses)
		b = end(appendVarint(b, statusCode, codeOverLimit), at)
	}
	b = appendHeader(b, "cache-control", "no-store")
	return x.appendProblem(b, http.StatusBadRequest, why)
}

// headers are the names of the header fields that clients get, by their positions in
// verdict.FieldNames. Envoy adds fields X-RateLimit itself.
var headers = [len(verdict.FieldNames)]string{0: "ratelimit-policy", 1: "ratelimit", 5: "retry-after"}

// show converts the ruling to a verdict, from which the header fields are made.
func (x *exchange) show() {
	r, v := &x.ruling, &x.shown
	*v = verdict.Verdict{Limits: v.Limits[:0]}
	v.Allowed = !r.Over
	for i := range r.Statuses {
		s := &r.Statuses[i]
		if !s.Over || v.RetryAfter == verdict.Never {
			continue
		}
		if v.RetryAfter = max(v.RetryAfter, s.RetryMS); s.RetryMS < 0 {
			v.RetryAfter = verdict.Never
		}
	}
	if r.Binding < 0 || !r.Statuses[r.Binding].Limited {
		return
	}
	v.Name = x.nameOf(r.Binding)
	v.Limits = append(v.Limits, x.limitOf(r.Binding))
	for i := range r.Statuses {
		if s := &r.Statuses[i]; i != r.Binding && s.Limited && !s.Replaced {
			v.Limits = append(v.Limits, x.limitOf(i))
		}
	}
}

// limitOf returns the limit of the i-th status.
func (x *exchange) limitOf(i int) verdict.Limit {
	s := &x.ruling.Statuses[i]
	l := verdict.Limit{Name: x.nameOf(i), Mode: modeEnforce}
	if s.Shadow {
		l.Mode = modeShadow
	}
	l.Allowed, l.Limit, l.Remaining, l.RetryAfter, l.ResetAfter = !s.Over, s.Requests, s.Remaining, s.RetryMS, s.ResetMS
	if unit, ok := policy.ParseUnit(string(s.Unit)); ok {
		if period, ok := unit.Period(s.Multiplier); ok {
			l.Window = period / int64(time.Millisecond)
		}
	}
	return l
}

var modeEnforce, modeShadow = []byte("enforce"), []byte("shadow")

// nameOf returns the name of a limit in header fields: the first plain name of the limit's
// own name, the last key of its descriptor, and the domain.
func (x *exchange) nameOf(i int) []byte {
	if name := x.ruling.Statuses[i].Name; plain(name) {
		return name
	}
	entries := x.asked.Descriptors[i].Entries
	if key := []byte(entries[len(entries)-1].Name); plain(key) {
		return key
	}
	return []byte(x.asked.Domain)
}

// plain reports whether a text can be written into a header field without a change.
func plain(name []byte) bool {
	for _, c := range name {
		if c < ' ' || c > '~' || c == '"' || c == '\\' {
			return false
		}
	}
	return len(name) > 0
}

// key returns a number for the caller, from the descriptor that decides the request.
func (x *exchange) key() uint64 {
	c := verdict.Call{Policy: x.asked.Domain}
	if x.ruling.Binding >= 0 {
		c.Attributes = x.asked.Descriptors[x.ruling.Binding].Entries
	}
	return c.Key()
}

// problem is the body of a denial, in the form of RFC 9457. Envoy itself sends the status.
// To a gRPC client Envoy sends the whole body as the message.
type problem struct {
	Type     string   `json:"type"`
	Title    string   `json:"title"`
	Detail   string   `json:"detail,omitempty"`
	Violated []string `json:"violated-policies,omitempty"`
}

// appendProblem appends the body of a denial, and the body's content type.
func (x *exchange) appendProblem(b []byte, status int, detail string) []byte {
	p := problem{Detail: detail}
	p.Type, p.Title = verdict.Problem(status, x.ruling.Reason)
	for i := range x.ruling.Statuses {
		if s := &x.ruling.Statuses[i]; s.Over && s.Limited {
			p.Violated = append(p.Violated, string(x.nameOf(i)))
		}
	}
	body, err := json.Marshal(&p)
	if err != nil {
		panic(err) // strings always marshal
	}
	b = appendHeader(b, "content-type", "application/problem+json")
	return appendText(b, responseBody, body)
}

// appendMetadata appends metadata for Envoy's access log, if there is any. Denials, answers
// without a leader, and rules with metadata have some.
func (x *exchange) appendMetadata(b []byte) []byte {
	r := &x.ruling
	var rules []any
	for i := range r.Statuses {
		var rule map[string]any
		if m := r.Statuses[i].Metadata; m != nil && json.Unmarshal(m, &rule) == nil {
			rules = append(rules, rule)
		}
	}
	if !r.Over && !r.Degraded && rules == nil {
		return b
	}
	told := map[string]any{"policy": x.asked.Domain, "version": r.Version, "reason": string(r.Reason), "degraded": r.Degraded}
	if r.Binding >= 0 {
		told["limit"] = string(x.nameOf(r.Binding))
	}
	if rules != nil {
		told["metadata"] = rules
	}
	s, err := structpb.NewStruct(told)
	if err != nil { // the metadata contains a name that is not UTF-8
		return b
	}
	body, err := proto.Marshal(s)
	if err != nil {
		return b
	}
	return protowire.AppendBytes(protowire.AppendTag(b, responseMetadata, bytes), body)
}
