package admin

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/headgate-io/headgate/resp"
	"github.com/headgate-io/headgate/server"
	"github.com/headgate-io/headgate/server/access"
	"github.com/headgate-io/headgate/server/verdict"
)

// Asker runs commands on behalf of a client, as [server.Caller] does.
type Asker interface {
	PipelineAs(ctx context.Context, who server.Client, dst, commands []byte) ([]byte, error)
}

// View tells what a node knows of itself and of its cluster.
type View interface {
	Now() Now
	// Cluster is nil without replication.
	Cluster() *Cluster
}

// API answers requests. Get one from [New].
type API struct {
	asker  Asker
	view   View
	writes *writes
	rates  rates
}

// New returns an API.
func New(asker Asker, view View) *API {
	return &API{asker: asker, view: view, writes: newWrites()}
}

// Request is what somebody asks who may.
type Request struct {
	*http.Request
	Who  server.Client
	Body []byte
}

// Answer is what is answered to one that is right, as JSON unless Type says another
// thing.
type Answer struct {
	Status int // 0 is 200
	Type   string
	// Version is that of the policy, for ETag; 0 for none.
	Version int64
	Body    []byte
}

// Error is a request that cannot be answered otherwise, as a status and a code that
// may be empty.
type Error struct {
	Status       int
	Code, Detail string
	// RetryAfter is the time after which the request may be sent again, if it helps.
	RetryAfter time.Duration
}

func (e *Error) Error() string { return e.Detail }

func wrong(format string, args ...any) error {
	return &Error{Status: http.StatusBadRequest, Detail: fmt.Sprintf(format, args...)}
}

// Method is what a path answers to one method.
type Method struct {
	Right access.Right
	// Types are the content types of bodies, nil for no body, and MaxBody is how many
	// bytes one may have.
	Types   []string
	MaxBody int
	// Heavy requests or answers are long: few are under way at a time.
	Heavy  bool
	Handle func(*Request) (Answer, error)
}

// Bounds of bodies, in bytes: of what names things, of a policy's text with what
// spells it, and of a file of policies.
const (
	maxSmall  = 64 << 10
	maxPolicy = 128 << 10
	maxFile   = 16 << 20
)

// Content types of bodies.
var (
	typesJSON = []string{"application/json"}
	// typesText are those of a policy's text: JSON is YAML.
	typesText = []string{"application/yaml", "application/x-yaml", "text/yaml", "application/json"}
)

// Routes returns what the API answers, by path, as patterns of http.ServeMux, and by
// method.
func (a *API) Routes() map[string]map[string]Method {
	see := func(handle func(*Request) (Answer, error)) Method {
		return Method{Right: access.RightSee, Handle: handle}
	}
	ask := func(most int, handle func(*Request) (Answer, error)) Method {
		return Method{Right: access.RightSee, Types: typesJSON, MaxBody: most, Handle: handle}
	}
	write := func(types []string, most int, handle func(*Request) (Answer, error)) Method {
		return Method{Right: access.RightWrite, Types: types, MaxBody: most, Heavy: most > maxPolicy, Handle: a.writes.limited(handle)}
	}
	heavy := func(m Method) Method { m.Heavy = true; return m }
	return map[string]map[string]Method{
		"/v1/policies":       {"GET": see(a.listPolicies)},
		"/v1/policies:load":  {"POST": write(typesText, maxFile, a.loadPolicies)},
		"/v1/policies:check": {"POST": heavy(Method{Right: access.RightSee, Types: typesText, MaxBody: maxFile, Handle: a.checkPolicies})},
		"/v1/policies/{name}": {
			"GET":    see(a.getPolicy),
			"PUT":    write(typesText, maxPolicy, a.putPolicy),
			"DELETE": write(nil, 0, a.deletePolicy),
		},
		"/v1/policies/{name}/history":  {"GET": see(a.policyHistory)},
		"/v1/policies/{name}/diff":     {"GET": see(a.policyDiff)},
		"/v1/policies/{name}/rollback": {"POST": write(typesJSON, maxSmall, a.rollbackPolicy)},
		"/v1/policies/{name}/reset":    {"POST": write(typesJSON, maxSmall, a.resetPolicy)},
		"/v1/overrides/{name}": {
			"GET":    heavy(see(a.getOverrides)),
			"PUT":    write(typesJSON, maxSmall, a.putOverride),
			"POST":   write(typesJSON, maxImport, a.importOverrides),
			"DELETE": write(nil, 0, a.deleteOverride),
		},
		"/v1/explain":  {"POST": ask(maxSmall, a.explain)},
		"/v1/top":      {"GET": see(a.top)},
		"/v1/now":      {"GET": see(a.now)},
		"/v1/cluster":  {"GET": see(a.cluster)},
		"/v1/simulate": {"POST": heavy(ask(maxTrial, a.simulate))},
	}
}

// ask runs a command and returns its reply. An error reply is a *verdict.Error.
func (a *API) ask(r *Request, args ...string) (resp.Reply, error) {
	out, err := a.asker.PipelineAs(r.Context(), r.Who, nil, resp.AppendCommand(nil, args))
	if err != nil {
		return resp.Reply{}, err
	}
	reply, err := resp.DecodeReply(out)
	if err != nil {
		return reply, err
	}
	return reply, verdict.ErrorOf(&reply)
}

// name is the policy of the path, where `:` stands for `/`.
func (r *Request) name() string { return strings.ReplaceAll(r.PathValue("name"), ":", "/") }

// query returns the parameters of the query, which are to be among known, and given
// once: a typing error is not to make a dry run a change. A prefix that ends with a
// dot is known whatever follows.
func (r *Request) query(known ...string) (url.Values, error) {
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, wrong("the query of the address is malformed: %v", err)
	}
	for name, list := range values {
		if !slices.ContainsFunc(known, func(k string) bool { return name == k || strings.HasSuffix(k, ".") && strings.HasPrefix(name, k) }) {
			return nil, wrong("unknown parameter %.64q, there are %s", name, strings.Join(known, ", "))
		}
		if len(list) > 1 {
			return nil, wrong("parameter %.64q is given twice", name)
		}
	}
	return values, nil
}

// flag reads a truth value of a query.
func flag(values url.Values, name string) (bool, error) {
	switch value, given := values[name]; {
	case !given || value[0] == "false":
		return false, nil
	case value[0] == "true":
		return true, nil
	}
	return false, wrong("%s is true or false", name)
}
