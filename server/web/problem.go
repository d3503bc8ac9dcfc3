package web

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"

	"github.com/headgate-io/headgate/server"
	"github.com/headgate-io/headgate/server/fronts"
	"github.com/headgate-io/headgate/server/verdict"
)

// problem says why a request gets no verdict, in the form of RFC 9457.
type problem struct {
	status int
	// code is the code of an error reply; "" if there was none.
	code   string
	detail string
}

func badRequest(err error) *problem {
	return &problem{status: http.StatusBadRequest, detail: err.Error()}
}

// problemOf converts an error reply, or another error of a call, to a problem.
func problemOf(err error) *problem {
	if reply := new(verdict.Error); errors.As(err, &reply) {
		return &problem{statusOf(reply), reply.Code, reply.Text}
	}
	switch {
	case errors.Is(err, server.ErrBusy):
		return &problem{http.StatusServiceUnavailable, "BUSY", err.Error()}
	case errors.Is(err, server.ErrClosed):
		return &problem{http.StatusServiceUnavailable, "TRYAGAIN", "this node is stopping, and nothing was run"}
	case errors.Is(err, server.ErrCutOff), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return &problem{http.StatusServiceUnavailable, "UNCERTAIN", "this node is stopping, and the call may have been decided"}
	}
	return &problem{http.StatusInternalServerError, "", err.Error()}
}

// resultOf returns a problem's result in metrics.
func resultOf(p *problem) fronts.Result {
	switch {
	case p == errNotAsked:
		return fronts.Denied
	case p.status >= http.StatusInternalServerError, p.code == "NOPOLICY":
		return fronts.Failed
	}
	return fronts.Refused
}

// statusOf returns the status of an error reply.
func statusOf(reply *verdict.Error) int {
	switch reply.Code {
	case "ERR":
		if reply.TooEarly() {
			return http.StatusServiceUnavailable
		}
		return http.StatusBadRequest
	case "WRONGTYPE", "CROSSSLOT": // the key has a value of another type; the call needs two groups
		return http.StatusBadRequest
	case "NOPOLICY", "NOHOLD":
		return http.StatusNotFound
	case "IDCONFLICT":
		return http.StatusUnprocessableEntity
	case "VERSION":
		return http.StatusPreconditionFailed
	case "NOPERM":
		return http.StatusForbidden
	}
	// All other errors pass: CLUSTERDOWN, UNCERTAIN, TRYAGAIN, BUSY, OOM and similar.
	return http.StatusServiceUnavailable
}

// append appends the problem as JSON.
func (p *problem) append(b []byte) []byte {
	b = openProblem(b, p.status, nil, p.detail)
	if p.code != "" {
		b = appendText(append(b, `,"code":`...), p.code)
	}
	return append(b, '}')
}

// openProblem appends the fields that all problems have. reason is the verdict's reason;
// nil if there is no verdict.
func openProblem(b []byte, status int, reason []byte, detail string) []byte {
	kind, title := verdict.Problem(status, reason)
	b = appendText(append(b, `{"type":`...), kind)
	b = appendText(append(b, `,"title":`...), title)
	b = strconv.AppendInt(append(b, `,"status":`...), int64(status), 10)
	return appendText(append(b, `,"detail":`...), detail)
}

// appendDenial appends the problem of a denied call, with the verdict.
func appendDenial(b []byte, v *verdict.Verdict, status int) []byte {
	b = openProblem(b, status, v.Reason, detailOf(v))
	b = append(b, `,"violated-policies":[`...)
	n := 0
	for i := range v.Limits {
		if l := &v.Limits[i]; !l.Allowed && l.Enforced() {
			if n > 0 {
				b = append(b, ',')
			}
			b = appendText(b, l.Name)
			n++
		}
	}
	return append(appendVerdict(append(b, `],"verdict":`...), v), '}')
}

// detailOf returns a sentence for people that says why a call is denied.
func detailOf(v *verdict.Verdict) string {
	var b strings.Builder
	switch string(v.Reason) {
	case "deny":
		return "the policy denies this caller"
	case "missing":
		return "limit " + string(v.Name) + " demands an attribute that the call has not"
	}
	b.WriteString("limit " + string(v.Name))
	if string(v.Reason) == "penalty" {
		b.WriteString(" has blocked this caller, and")
	}
	if v.RetryAfter < 0 {
		b.WriteString(" never admits this call")
	} else {
		b.WriteString(" admits this call in " + strconv.FormatInt(v.RetryAfter, 10) + " ms")
	}
	return b.String()
}
