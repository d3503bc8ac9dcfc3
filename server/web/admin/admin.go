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

// View supplies the state of a node and its cluster.
type View interface {
	Now() Now
	// Cluster returns nil without replication.
	Cluster() *Cluster
	// Durations returns how long decisions have taken, of a sample of them.
	Durations() Durations
	// Counts returns the counts of the limits of policies: a new slice, which is not nil.
	Counts() []LimitCount
}

// API answers requests. Use [New] to make one.
type API struct {
	asker  Asker
	view   View
	writes *writes
	rates  rates
	past   history
}

// New returns an API.
func New(asker Asker, view View) *API {
	return &API{asker: asker, view: view, writes: newWrites()}
}

// Request is a request whose client was admitted.
type Request struct {
	*http.Request
	Who  server.Client
	Body []byte
}

// Answer is the answer to a right request. It is JSON unless Type says otherwise.
type Answer struct {
	Status int // 0 means 200
	Type   string
	// Version is the policy's version, for ETag; 0 if the answer is about no policy.
	Version int64
	Body    []byte
}

// Error answers a request with a status and a code, which may be empty.
type Error struct {
	Status       int
	Code, Detail string
	// RetryAfter is how long the client should wait before it sends the request again; 0 if
	// waiting does not help.
	RetryAfter time.Duration
}

func (e *Error) Error() string { return e.Detail }

func wrong(format string, args ...any) error {
	return &Error{Status: http.StatusBadRequest, Detail: fmt.Sprintf(format, args...)}
}

// Method is how a path answers one HTTP method.
type Method struct {
	Right access.Right
	// Types are the content types of the body, nil for no body. MaxBody bounds the body in
	// bytes.
	Types   []string
	MaxBody int
	// Heavy reports that requests or answers of the method are long. The server runs few
	// heavy methods at a time.
	Heavy  bool
	Handle func(*Request) (Answer, error)
}

// Bounds of request bodies, in bytes: small requests, requests with a policy's text, and
// files of policies.
const (
	maxSmall  = 64 << 10
	maxPolicy = 128 << 10
	maxFile   = 16 << 20
)

// Content types of bodies.
var (
	typesJSON = []string{"application/json"}
	// typesText are the content types of a policy's text. They include JSON, because every
	// JSON text is YAML.
	typesText = []string{"application/yaml", "application/x-yaml", "text/yaml", "application/json"}
)

// Routes returns the requests that the API answers, by path and method. Paths are patterns
// of http.ServeMux.
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
		"/v1/explain":  {"GET": see(a.explainQuery), "POST": ask(maxSmall, a.explain)},
		"/v1/top":      {"GET": see(a.top)},
		"/v1/now":      {"GET": see(a.now)},
		"/v1/history":  {"GET": see(a.history)},
		"/v1/counts":   {"GET": see(a.counts)},
		"/v1/cluster":  {"GET": see(a.cluster)},
		"/v1/simulate": {"POST": heavy(ask(maxTrial, a.simulate))},
	}
}

// ask runs a command and returns its reply. An error reply becomes a *verdict.Error.
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

// name returns the name of the policy in the path. The path has `:` for each `/` of the
// name.
func (r *Request) name() string { return strings.ReplaceAll(r.PathValue("name"), ":", "/") }

// query returns the parameters of the query. An unknown or repeated parameter is an error:
// a mistyped dry_run must not make a change. A name in known that ends with a dot allows
// all names that begin with it.
func (r *Request) query(known ...string) (url.Values, error) {
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, wrong("the query of the address is malformed: %v", err)
	}
	for name, list := range values {
		if !slices.ContainsFunc(known, func(k string) bool { return name == k || strings.HasSuffix(k, ".") && strings.HasPrefix(name, k) }) {
			return nil, wrong("unknown parameter %.64q; known parameters: %s", name, strings.Join(known, ", "))
		}
		if len(list) > 1 {
			return nil, wrong("parameter %.64q is given twice", name)
		}
	}
	return values, nil
}

// flag reads a parameter whose value is true or false.
func flag(values url.Values, name string) (bool, error) {
	switch value, given := values[name]; {
	case !given || value[0] == "false":
		return false, nil
	case value[0] == "true":
		return true, nil
	}
	return false, wrong("%s is true or false", name)
}
