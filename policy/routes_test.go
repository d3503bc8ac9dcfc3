package policy_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/policy"
	"github.com/headgate-io/headgate/policy/diff"
	"github.com/headgate-io/headgate/policy/grammar"
	"github.com/headgate-io/headgate/policy/policytest"
)

const routesFile = `
policies:
  login: {limits: {ip: {by: ip, rate: 5/m}, user: {by: user, rate: 5/m}}}
  api: {limits: {user: {by: [user, route], rate: 100/m}}}
  items: {limits: {item: {by: [item, tier], rate: 10/m}}}
routes:
  edge:
    else: deny
    attributes: {user: {header: x-user}, item: {path: id}}
    match:
      POST api.example.com/v1/login: {policy: login, cost: 5}
      /v1/items/{id}: {policy: items, attributes: {tier: free}}
      /v1/*: api
      GET /healthz: allow
      /files/{name}: api
  pages: {else: allow}
`

func routed(t testing.TB, s *policy.Set, request string) (*policy.Found, error) {
	t.Helper()
	method, target, _ := strings.Cut(request, " ")
	at := strings.IndexByte(target, '/')
	var f policy.Found
	err := s.Routes("routes/edge").Find(method, target[:at], target[at:], &f)
	return &f, err
}

func TestRoutes(t *testing.T) {
	s := policytest.Load(t, routesFile)
	require.NoError(t, s.CheckRoutes())
	require.Empty(t, s.RouteWarnings())
	require.Nil(t, s.Routes("edge"))
	require.Nil(t, s.Policy([]byte("routes/edge")))
	f, err := routed(t, s, "POST API.example.com:443//v1/./login?user=eve")
	require.NoError(t, err)
	require.Equal(t, "POST api.example.com/v1/login", f.Route.Pattern)
	require.Equal(t, "login", f.Route.Policy)
	require.Equal(t, int64(5), f.Route.Cost)
	require.Equal(t, []string{"POST", "api.example.com", "/v1/login", "user=eve"}, []string{f.Method, f.Host, f.Path, f.Query})
	require.Len(t, f.Route.Given, 1, "the pattern has no {id}")
	require.Equal(t, "X-User", f.Route.Given[0].Key)

	f, err = routed(t, s, "GET x/v1/items/%37/")
	require.NoError(t, err)
	require.Equal(t, "items", f.Route.Policy)
	require.Equal(t, []string{"tier", "user", "item"}, []string{f.Route.Given[0].Name, f.Route.Given[1].Name, f.Route.Given[2].Name})
	require.Equal(t, "7", f.Param(f.Route.Given[2].Param))

	f, err = routed(t, s, "HEAD x/healthz")
	require.NoError(t, err)
	require.Equal(t, policy.AllowAll, f.Route.Answer)
	f, err = routed(t, s, "POST x/healthz")
	require.NoError(t, err)
	require.Equal(t, policy.DenyAll, f.Route.Answer)
	require.Empty(t, f.Route.Pattern)

	// Which of two routes it is the application decides.
	_, err = routed(t, s, "GET x/files/a%2fb")
	require.ErrorIs(t, err, policy.ErrEncodedSlash)
	f, err = routed(t, s, "GET x/v1/a%2Fb")
	require.NoError(t, err)
	require.Equal(t, "/v1/*", f.Route.Pattern)

	var star policy.Found
	require.NoError(t, s.Routes("routes/edge").Find("OPTIONS", "x", "*", &star))
	require.Equal(t, policy.DenyAll, star.Route.Answer)
	require.Empty(t, star.Path)
}

func TestRoutesWithOptions(t *testing.T) {
	s := policytest.Load(t, `
policies: {p: {limits: {a: {rate: 1/s}}}}
routes:
  edge: {else: deny, encoded_slash: segment, case: ignore, match: {"/Files/{name}": p}}
`)
	f, err := routed(t, s, "GET x/files/A%2fB")
	require.NoError(t, err)
	require.Equal(t, "p", f.Route.Policy)
	require.Equal(t, "a%2Fb", f.Param(0))
	s = policytest.Load(t, `
policies: {p: {limits: {a: {rate: 1/s}}}}
routes:
  edge: {else: p, encoded_slash: separator, match: {"/files/{name}": deny}}
`)
	f, err = routed(t, s, "GET x/files%2FA")
	require.NoError(t, err)
	require.Equal(t, policy.DenyAll, f.Route.Answer)
}

func TestRoutesText(t *testing.T) {
	for body, want := range map[string]string{
		"{else: allow}": "else: allow\n",
		"{match: {GET /b: deny, \"GET /{x}\": {policy: allow}}, else: {policy: p, cost: 3, attributes: {b: {cookie: c}, a: {query: Q x}}}, case: ignore, encoded_slash: separator, attributes: {k: {header: x-k}, z: 'a b'}}": `else: {policy: p, attributes: {b: {cookie: c}, a: {query: "Q x"}}, cost: 3}
attributes: {k: {header: X-K}, z: "a b"}
encoded_slash: separator
case: ignore
match:
  "GET /b": deny
  "GET /{x}": {policy: allow}
`,
	} {
		rec, err := grammar.ParseRecord("f", "routes/x", []byte(body))
		require.NoError(t, err)
		require.Equal(t, policy.RoutesRecord, rec.Kind)
		require.Equal(t, want, grammar.Format(rec))
		again, err := grammar.ParseRecord("f", "routes/x", []byte(want))
		require.NoError(t, err)
		require.Equal(t, want, grammar.Format(again))
		require.Empty(t, diff.Compare(rec, again))
		require.Empty(t, grammar.Warnings(rec, nil))
	}
	old, err := grammar.ParseRecord("f", "routes/x", []byte("{else: a, match: {/b: deny, /c: p}}"))
	require.NoError(t, err)
	is, err := grammar.ParseRecord("f", "routes/x", []byte("{else: b, match: {/b: {policy: p, cost: 2}, GET /d: allow}}"))
	require.NoError(t, err)
	var lines []string
	for _, d := range diff.Compare(old, is) {
		lines = append(lines, d.String())
	}
	require.Equal(t, []string{"else: a -> b", "match./b: deny -> {policy: p, cost: 2}", "match./c: p -> nothing", `match."GET /d": nothing -> allow`}, lines)
	require.Len(t, diff.Compare(nil, is), 3)
	require.Len(t, diff.Compare(old, nil), 3)
}

func TestRoutesThatAreRefused(t *testing.T) {
	for body, want := range map[string]string{
		"{match: {/a: p}}":                                                             "f:1:1: else is missing",
		"{else: p, mach: {}}":                                                          `f:1:11: unknown key "mach", did you mean "match"?`,
		"{else: P}":                                                                    `f:1:8: else: "P" does not name a policy`,
		"{else: routes/x}":                                                             "is a reserved name",
		"{else: {cost: 1}}":                                                            "policy is missing",
		"{else: {policy: p, cost: 0}}":                                                 "a whole number from 1",
		"{else: [p]}":                                                                  "want a policy, allow or deny, not a list",
		"{else: p, encoded_slash: seg}":                                                "one of deny, segment, separator",
		"{else: p, match: {/a/: p}}":                                                   "f:1:19: match./a/: a path must not have an empty segment",
		"{else: p, match: {'/a/{x}': p, '/{y}/b': p}}":                                 `f:1:32: match./{y}/b: and "/a/{x}" match some of the same requests, and neither is more specific`,
		"{else: p, attributes: {Ip: x}}":                                               "Ip",
		"{else: p, attributes: {cost: x}}":                                             "cost",
		"{else: p, attributes: {a: {heder: X}}}":                                       `did you mean "header"?`,
		"{else: p, attributes: {a: {header: 'a b'}}}":                                  "does not name a header field",
		"{else: p, attributes: {a: {header: authorization}}}":                          "the gateway's own credentials for Headgate",
		"{else: p, attributes: {a: {header: x-forwarded-for}}}":                        "the attribute ip",
		"{else: p, attributes: {a: {cookie: 'a;b'}}}":                                  "does not name a cookie",
		"{else: p, attributes: {a: {header: a, query: b}}}":                            "want one of header",
		"{else: {policy: p, attributes: {a: {path: id}}}}":                             "the pattern has no {id}",
		"{else: p, match: {'/{idd}': {policy: p, attributes: {a: {path: id}}}}}":       `the pattern has no {id}, did you mean "idd"?`,
		"{else: p, match: {*.com/: p}}":                                                "quote a pattern that begins with a star",
		"{else: {policy: p, attributes: {" + manyAttributes(policy.MaxGiven+1) + "}}}": "27 attributes",
	} {
		_, err := grammar.ParseRecord("f", "routes/x", []byte(body))
		require.ErrorContains(t, err, want, body)
	}
	for _, name := range []string{"routes/", "routes/X", "routes/a/b", "routes"} {
		_, err := grammar.ParseRecord("f", name, []byte("{else: allow}"))
		require.Error(t, err, name)
	}
	_, err := grammar.ParseFile("f", []byte("routes: {E: {else: allow}}"))
	require.ErrorContains(t, err, "does not name a set of routes")
}

func manyAttributes(n int) string {
	all := make([]string, n)
	for i := range all {
		all[i] = "a" + strings.Repeat("x", i) + ": x"
	}
	return strings.Join(all, ", ")
}

// Routes go to policies that are there, and give attributes that these know.
func TestRoutesAmongPolicies(t *testing.T) {
	s := policytest.Load(t, `
policies:
  login: {limits: {user: {by: user, rate: 5/m}}}
  net: {limits: {ip: {by: ip, rate: 5/m}}}
routes:
  edge:
    else: {policy: login, attributes: {usr: {header: X-User}}}
    match: {/a: logn, /b: net, /c: {policy: net, attributes: {ip: {header: X-Ip}}}}
`)
	err := s.CheckRoutes()
	require.EqualError(t, err, `policies.yaml:8:17: routes.edge.match./a: there is no policy "logn", did you mean "login"?`)
	require.EqualError(t, policytest.Load(t, `
policies: {envoy: {descriptors: [{key: ip}]}}
routes: {edge: {else: allow, match: {/a: envoy}}}
`).CheckRoutes(), `policies.yaml:3:42: routes.edge.match./a: policy "envoy" has descriptors: a route needs a policy with limits`)
	require.EqualError(t, s.CheckAddresses(), `policies.yaml:8:27: routes.edge.match./b: policy "net" counts by ip, but the addresses of clients are unknown: set trusted-proxies to the gateway's address`)
	warnings := s.RouteWarnings()
	require.Len(t, warnings, 1)
	require.Equal(t, `policies.yaml:7:40: routes.edge.else.attributes.usr: policy "login" has no use for the attribute "usr", did you mean "user"?`, warnings[0].Error())

	e := s.Edit()
	require.True(t, e.Delete("routes/edge"))
	require.False(t, e.Delete("routes/other"))
	next, err := e.Finish(2)
	require.NoError(t, err)
	require.Nil(t, next.Routes("routes/edge"))
	require.NotNil(t, s.Routes("routes/edge"), "the set before stays as it is")

	e = next.Edit()
	for i := range policy.MaxRouteSets + 1 {
		rec, err := grammar.ParseRecord("f", "routes/r"+strings.Repeat("a", i%30)+strings.Repeat("b", i/30), []byte("{else: allow}"))
		require.NoError(t, err)
		e.Set(rec, policy.Meta{Version: 7})
	}
	_, err = e.Finish(3)
	require.ErrorContains(t, err, "64 sets of routes")
}

// However a request is written, nothing panics, and what is found is of the request.
func FuzzRoutes(f *testing.F) {
	f.Add("else: deny\nmatch: {\"GET /a/{id}\": {policy: p, attributes: {id: {path: id}}}}", "GET", "h", "/a/%2f?x=y")
	f.Add("else: p\nencoded_slash: separator\nmatch: {\"*.x/*\": allow}", "POST", "a.x:80", "http://b/a;c/../d")
	f.Add("else: p\nmatch: {\"*.x/*\": allow}", "POST", "a:8.x.:80", "/a")
	f.Fuzz(func(t *testing.T, body, method, host, target string) {
		rec, err := grammar.ParseRecord("f", "routes/x", []byte(body))
		if err != nil {
			return
		}
		again, err := grammar.ParseRecord("f", "routes/x", []byte(grammar.Format(rec)))
		require.NoError(t, err)
		require.Equal(t, grammar.Format(rec), grammar.Format(again))
		var found, twice policy.Found
		err = rec.Routes.Set.Find(method, host, target, &found)
		require.Equal(t, err, again.Routes.Set.Find(method, host, target, &twice))
		require.Equal(t, found.Route.Pattern, twice.Route.Pattern)
		for _, g := range found.Route.Given {
			if g.From == policy.FromPath {
				require.NotEmpty(t, found.Param(g.Param))
				require.Contains(t, found.Path, found.Param(g.Param))
			}
		}
		if err == nil && found.Path != "" && !strings.ContainsAny(found.Path, "%;?#") { // the same, written otherwise
			require.NoError(t, rec.Routes.Set.Find(method, strings.ToUpper(found.Host), "/x/.."+found.Path, &twice))
			require.Equal(t, found.Route.Pattern, twice.Route.Pattern)
		}
	})
}
