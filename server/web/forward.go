package web

import (
	"errors"
	"net/http"

	"github.com/headgate-io/headgate/policy"
	"github.com/headgate-io/headgate/resp"
	"github.com/headgate-io/headgate/server/fronts"
	"github.com/headgate-io/headgate/server/verdict"
)

// forward answers the question of a gateway whether a request of its client may
// pass, by the policy or the routes of the path: 200, or the status of the limit that denies, 429
// for most, with a problem.
//
// At pathAuth403 it answers without bodies nginx, which takes 200 to 299 for yes, 401 and 403 for
// no, and all else for an error, upon which it may be configured to let requests
// pass; and which keeps a connection only if the answers on it have no bodies. So
// what a limit denies is 403, and so is what the configuration has wrong, since an
// unknown policy is not to open the gate; while nobody can decide, it is 503.
//
// At pathAuthz it answers Envoy's ext_authz, as at pathAuth; to Envoy 200 passes alone.
//
// The body is never looked at, and the query says nothing of the question: gateways
// pass on those of their client, and some announce a body that they do not send.
func (a *api) forward(w http.ResponseWriter, r *http.Request, gate string) {
	h := w.Header()
	if r.ContentLength != 0 {
		// Where the next request begins nobody can tell without the body. And net/http
		// would read it before it answers, but for a connection that closes.
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

// askForward asks for a verdict about the request that a gateway tells of. asked is
// false, without a problem, for one that passes though nothing was asked.
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

// Problems of routes. Who asks by them has to be known as a gateway: what it tells of
// users is believed.
var (
	errNotAsked  = &problem{status: http.StatusForbidden, detail: "no route lets this request pass"}
	errStranger  = &problem{status: http.StatusForbidden, detail: "the caller is not in trusted-proxies: routes answer only those"}
	errAmbiguous = &problem{status: http.StatusForbidden, detail: policy.ErrEncodedSlash.Error()}
	errNotKnown  = &problem{http.StatusServiceUnavailable, "TRYAGAIN", "this node has begun and does not know these routes yet"}
)

// route makes the call of the exchange what the routes of a name say. ask is false if
// they ask nothing: the request passes, or there is a problem.
func (a *api) route(x *exchange, name string) (ask bool, p *problem) {
	if !trusts(x.r.RemoteAddr, a.trusted) {
		return false, errStranger
	}
	routes := a.decider.Routes(name)
	if routes == nil {
		// The command then says what it says of policies, and counts it.
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

// unknownRoutes returns nil for routes that there are not, which the leader knows: a
// node that has just begun may not know those that there are, and is not to deny what
// they let pass.
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
