package web

import (
	"errors"
	"net/http"

	"github.com/headgate-io/headgate/policy"
	"github.com/headgate-io/headgate/resp"
	"github.com/headgate-io/headgate/server/fronts"
	"github.com/headgate-io/headgate/server/verdict"
)

// forward answers a gateway that asks whether a request of its client may pass. The path
// names the policy that decides, or the routes that choose the policy. The answer is 200
// if the request may pass. Otherwise it is a problem (RFC 9457), with the status of the
// limit that denies, usually 429.
//
// pathAuth403 is for nginx. For nginx, 200 to 299 mean yes, and 401 and 403 mean no. All
// other statuses are errors to nginx, after which its configuration may let the request
// pass. So a denial is 403 here. A configuration error, such as an unknown policy, is
// also 403, because it must not let requests pass. If no node can decide, the answer is
// 503. These answers have no bodies, because nginx keeps a connection open only after an
// answer without a body.
//
// pathAuthz is for Envoy's ext_authz, and gives the same answers as pathAuth. Envoy lets
// a request pass only after 200.
//
// forward never reads the body, because some gateways announce a body that they do not
// send. It ignores the query, because gateways pass on their client's query.
func (a *api) forward(w http.ResponseWriter, r *http.Request, gate string) {
	h := w.Header()
	if r.ContentLength != 0 {
		// The body stays unread, so nobody can tell where the next request begins. net/http
		// would read the body before it answers, unless the connection closes.
		h["Connection"] = []string{"close"}
	}
	x := a.newExchange(w, r, fronts.NameForwardAuth)
	defer x.end()
	x.received()
	asked, p := a.askForward(x, gate)
	status := http.StatusOK
	switch {
	case p != nil:
		status, x.result = p.status, resultOf(p)
	case asked:
		x.setFields(x.check.Call.Key())
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
	a.fronts.ForwardAuth.Count(x.result, x.here)
}

// askForward asks for a verdict about the request that a gateway describes. If the request
// passes without a call, asked is false and p is nil.
func (a *api) askForward(x *exchange, gate string) (asked bool, p *problem) {
	if p = a.admitsGateway(x.r); p != nil {
		return false, p
	}
	name, below, ok := policyOf(x.r.URL, gate)
	if !ok {
		return false, errGate
	}
	f, c := &x.forwarded, &x.check.Call
	*c = verdict.Call{Policy: name, Attributes: c.Attributes[:0]}
	if err := f.read(x.r, gate, below); err != nil {
		return false, badRequest(err)
	}
	if ip, ok := a.callerIP(x.r); ok {
		f.IP = ip
	}
	if policy.KindOf(name) == policy.RoutesRecord {
		if asked, p = a.route(x, name); !asked {
			return false, p
		}
	} else {
		f.describe(c)
	}
	var err error
	if x.commands, err = c.AppendCheck(x.commands[:0]); err != nil {
		return false, badRequest(err)
	}
	return true, a.ask(x)
}

// Problems of routes. The server reads routes only for gateways in trusted-proxies, because
// routes believe what a gateway says about users.
var (
	errNotAsked  = &problem{status: http.StatusForbidden, detail: "no route lets this request pass"}
	errStranger  = &problem{status: http.StatusForbidden, detail: "the caller is not in trusted-proxies: routes answer only those"}
	errAmbiguous = &problem{status: http.StatusForbidden, detail: policy.ErrEncodedSlash.Error()}
	errNotKnown  = &problem{http.StatusServiceUnavailable, "TRYAGAIN", "this node has just started and does not know these routes yet"}
)

// route fills in the exchange's call as the named routes say. ask is false if no call is
// needed, because the request passes or because there is a problem.
func (a *api) route(x *exchange, name string) (ask bool, p *problem) {
	if !trusts(x.r.RemoteAddr, a.trusted) {
		return false, errStranger
	}
	routes := a.decider.Routes(name)
	if routes == nil {
		// Then the call names a policy that does not exist, so its command replies with
		// that error and counts it.
		p = a.unknownRoutes(x, name)
		return p == nil, p
	}
	switch err := x.forwarded.Route(routes, &x.check.Call, &x.found); {
	case errors.Is(err, policy.ErrEncodedSlash):
		return false, errAmbiguous
	case err != nil:
		return false, badRequest(err)
	}
	switch x.found.Route.Answer {
	case policy.AllowAll:
		return false, nil
	case policy.DenyAll:
		return false, errNotAsked
	}
	return true, nil
}

// unknownRoutes asks the leader for routes that this node does not know, and returns nil if
// the leader does not know them either. A node that has just started may not know all
// routes yet. It must not deny requests that the routes let pass.
func (a *api) unknownRoutes(x *exchange, name string) *problem {
	x.commands = resp.AppendCommand(x.commands[:0], []string{"RL.POLICY", "GET", name})
	if p := a.run(x, x.commands); p != nil {
		return p
	}
	reply, err := resp.DecodeReply(x.replies)
	if err == nil {
		err = verdict.ErrorOf(&reply)
	}
	switch {
	case err != nil:
		return problemOf(err)
	case reply.Type != '_':
		return errNotKnown
	}
	return nil
}
