package web

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/netip"
	"strings"

	"github.com/headgate-io/headgate/policy"
	"github.com/headgate-io/headgate/server/access"
	"github.com/headgate-io/headgate/server/fronts"
	"github.com/headgate-io/headgate/server/verdict"
)

// RouteTrial is what a set of routes does with a request.
type RouteTrial struct {
	Found policy.Found
	// Call is the call of the route's policy; it is empty if the route asks no policy.
	Call verdict.Call
}

// TriedAttribute is an attribute of a RouteTrial. From says where its value comes from.
type TriedAttribute struct {
	Name  string `json:"name"`
	Value string `json:"value"` // "" if the request has no such value; the call then leaves it out
	From  string `json:"from"`
}

// Try returns what routes do with the request. An error is the reason for which a gateway
// would be told to refuse the request.
func (f *Forwarded) Try(routes *policy.Routes) (*RouteTrial, error) {
	t := new(RouteTrial)
	return t, f.Route(routes, &t.Call, &t.Found)
}

// Attributes returns the attributes that the route gives and the request lacks, and after
// them the attributes of the call.
func (t *RouteTrial) Attributes() []TriedAttribute {
	from := map[string]string{"ip": "the client's address", "method": "the request", "host": "the request", "path": "the request, in one spelling", "route": "the route"}
	list := []TriedAttribute{}
	for i := range t.Found.Route.Given {
		g := &t.Found.Route.Given[i]
		from[g.Name] = g.String()
		if t.Call.Attribute(g.Name) == "" {
			list = append(list, TriedAttribute{g.Name, "", g.String()})
		}
	}
	for _, a := range t.Call.Attributes {
		list = append(list, TriedAttribute{a.Name, a.Value, from[a.Name]})
	}
	return list
}

// pathRoutesTest answers what routes do with a request, and counts nothing.
const pathRoutesTest = "/v1/routes:test"

var triedFields = []string{"routes", "method", "host", "path", "headers", "ip"}

var (
	errNoRoutes = errors.New("routes is missing: it is the name of a set of routes")
	errNoPath   = errors.New("path is missing: routes need the path of the request")
	errTriedIP  = errors.New("must be an address, such as 203.0.113.9")
)

// readTrial reads the body of pathRoutesTest.
func readTrial(r *jsonReader, name *string, f *Forwarded) error {
	*name, *f = "", Forwarded{Method: http.MethodGet, Header: http.Header{}}
	err := r.object(triedFields, func(field int) (err error) {
		switch triedFields[field] {
		case "routes":
			*name, err = r.text()
		case "method":
			f.Method, err = r.text()
		case "host":
			f.Host, err = r.text()
		case "path":
			f.Target, err = r.text()
		case "headers":
			err = r.members(func(text []byte) error {
				header := string(text)
				value, err := r.text()
				f.Header.Add(header, strings.TrimSpace(value))
				return err
			})
		case "ip":
			var ip string
			if ip, err = r.text(); err == nil && ip != "" {
				if f.IP, err = netip.ParseAddr(ip); err != nil {
					err = errTriedIP
				}
			}
		}
		return err
	})
	switch {
	case err != nil:
		return err
	case *name == "":
		return errNoRoutes
	case f.Target == "":
		return errNoPath
	}
	return nil
}

// testRoutes answers a request to pathRoutesTest.
func (a *api) testRoutes(w http.ResponseWriter, r *http.Request) {
	x := a.newExchange(w, r, fronts.NameHTTP)
	defer x.end()
	p := checkPost(w, r)
	if p == nil {
		_, p = a.admit(r, access.RightSee)
	}
	if p == nil {
		p = a.tryRoute(x)
	}
	if p != nil {
		sendProblem(w, p)
	}
}

// tried is the answer to a request to pathRoutesTest.
type tried struct {
	Routes  string `json:"routes"`
	Version uint64 `json:"version"`
	// Route is the pattern of the route; nil for the routes' `else`.
	Route      *string          `json:"route"`
	Answer     string           `json:"answer"` // policy, allow or deny
	Policy     string           `json:"policy,omitempty"`
	Cost       int64            `json:"cost,omitempty"` // 0 if the policy decides the cost
	Attributes []TriedAttribute `json:"attributes"`
	// Verdict is what the policy would answer now. Error says why it would answer none.
	Verdict json.RawMessage `json:"verdict,omitempty"`
	Error   string          `json:"error,omitempty"`
}

// routeAnswers are the words for the answers of routes.
var routeAnswers = [...]string{policy.AskPolicy: "policy", policy.AllowAll: "allow", policy.DenyAll: "deny"}

func (a *api) tryRoute(x *exchange) *problem {
	var name string
	if p := x.read(maxBodyBytes, func(r *jsonReader) error { return readTrial(r, &name, &x.forwarded) }); p != nil {
		return p
	}
	name = "routes/" + strings.TrimPrefix(name, "routes/")
	routes := a.decider.Routes(name)
	if routes == nil {
		if p := a.unknownRoutes(x, name); p != nil {
			return p
		}
		return &problem{http.StatusNotFound, "NOPOLICY", "there is no " + name}
	}
	t, err := x.forwarded.Try(routes)
	if err != nil {
		return &problem{status: http.StatusUnprocessableEntity, detail: "the gateway would be told to refuse the request: " + err.Error()}
	}
	route := t.Found.Route
	out := tried{Routes: routes.Name, Version: routes.Version, Answer: routeAnswers[route.Answer], Policy: route.Policy, Cost: route.Cost, Attributes: t.Attributes()}
	if route.Pattern != "" {
		out.Route = &route.Pattern
	}
	if route.Answer == policy.AskPolicy {
		t.Call.Peek = true
		if x.commands, err = t.Call.AppendCheck(x.commands[:0]); err != nil {
			return badRequest(err)
		}
		switch p := a.ask(x); {
		case p == nil:
			out.Verdict = appendVerdict(nil, &x.verdict)
		case p.status == http.StatusServiceUnavailable:
			return p
		default:
			out.Error = p.detail
		}
	}
	body, err := json.Marshal(&out)
	if err != nil {
		return &problem{status: http.StatusInternalServerError, detail: err.Error()}
	}
	send(x.w, http.StatusOK, typeJSON, body)
	return nil
}
