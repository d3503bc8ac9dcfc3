package web

import (
	"net/http"
	"strings"

	"github.com/headgate-io/headgate/policy"
	"github.com/headgate-io/headgate/server/verdict"
)

// forward answers the question of a gateway whether a request of its client may
// pass, by the policy of the path: 200, or the status of the limit that denies, 429
// for most, with a problem.
//
// At pathAuth403 it answers without bodies nginx, which takes 200 to 299 for yes, 401 and 403 for
// no, and all else for an error, upon which it may be configured to let requests
// pass; and which keeps a connection only if the answers on it have no bodies. So
// what a limit denies is 403, and so is what the configuration has wrong, since an
// unknown policy is not to open the gate; while nobody can decide, it is 503.
//
// The query and the body are never looked at: gateways pass on those of their
// client, and some announce a body that they do not send.
func (a *api) forward(w http.ResponseWriter, r *http.Request, gate string) {
	h := w.Header()
	if r.ContentLength != 0 {
		// Where the next request begins nobody can tell without the body. And net/http
		// would read it before it answers, but for a connection that closes.
		h["Connection"] = []string{"close"}
	}
	x := a.newExchange(w, r)
	defer x.end()
	x.received()
	p := a.askForward(x, gate)
	status := http.StatusOK
	if p != nil {
		status = p.status
	} else {
		setVerdict(h, &x.verdict, x.asked, x.check.Call.Key())
		status = x.verdict.Status()
	}
	h["Cache-Control"] = noStore
	switch {
	case gate == pathAuth403:
		if p == nil && status != http.StatusOK || status >= http.StatusMultipleChoices && status < http.StatusInternalServerError {
			status = http.StatusForbidden
		}
		w.WriteHeader(status)
	case p != nil:
		sendProblem(w, p)
	case status == http.StatusOK:
		w.WriteHeader(status)
	default:
		send(w, status, typeProblem, appendDenial(x.out[:0], &x.verdict, status))
	}
}

// askForward asks for a verdict about the request that a gateway tells of.
func (a *api) askForward(x *exchange, gate string) *problem {
	if p := a.admits(x.r); p != nil {
		return p
	}
	name, ok := policyOf(x.r.URL, gate)
	if !ok {
		return errGate
	}
	c := &x.check.Call
	*c = verdict.Call{Policy: name, Attributes: c.Attributes[:0]}
	a.describe(c, x.r)
	var err error
	if x.commands, err = c.AppendCheck(x.commands[:0]); err != nil {
		return badRequest(err)
	}
	return a.ask(x)
}

// describe gives a call the attributes of the request that a gateway tells of: ip,
// method, host and path. What it does not tell is absent, but for the method and the
// host, which are those of its own request then.
func (a *api) describe(c *verdict.Call, r *http.Request) {
	set := func(name, value string) {
		if value != "" {
			c.Attributes = append(c.Attributes, verdict.Attribute{Name: name, Value: value[:min(len(value), policy.MaxValue)]})
		}
	}
	if ip, ok := a.callerIP(r); ok {
		set("ip", ip.String())
	}
	set("method", told(r, "X-Forwarded-Method", r.Method))
	set("host", told(r, "X-Forwarded-Host", r.Host))
	path, _, _ := strings.Cut(told(r, "X-Forwarded-Uri", ""), "?")
	set("path", path)
}

// told is a header field, or what stands for it where it is absent.
func told(r *http.Request, name, otherwise string) string {
	if values := r.Header[name]; len(values) > 0 {
		return values[0]
	}
	return otherwise
}
