package policy

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/headgate-io/headgate/policy/route"
)

// routesDef is the checked tree of a set of routes.
type routesDef struct {
	name   string
	weight int // as of a definition
	given  []givenDef
	slash  slashes
	fold   uint8 // index of cases
	routes []routeDef
	other  *targetDef
	set    *Routes // what it is compiled to
}

// routeDef is a pattern and what its requests ask.
type routeDef struct {
	pattern route.Pattern
	place   place
	targetDef
}

// targetDef is what requests ask.
type targetDef struct {
	place  place
	answer Answer
	policy string
	given  []givenDef
	cost   int64 // 0: not said
}

// givenDef is an attribute, and where its value is from.
type givenDef struct {
	name  string
	from  Origin
	key   string
	place place
}

// routeSets reads named sets of routes.
func (r *reader) routeSets(n *yaml.Node) (defs []*routesDef) {
	r.pairs(n, "a mapping of names to routes", func(key, value *yaml.Node) {
		if !isListName(key.Value) {
			r.fail(key, "does not name a set of routes: a-z, 0-9, _ and -, a letter first, %d at most", MaxWord)
			return
		}
		defs = append(defs, r.routes(key.Value, value))
	})
	return defs
}

// routes reads a set of routes, and compiles it.
func (r *reader) routes(name string, n *yaml.Node) *routesDef {
	d := &routesDef{name: name, weight: weigh(n)}
	before := len(r.errs.List)
	readMap(r, n, "a mapping with else and match", routesEntries, d)
	if n.Kind == yaml.MappingNode && !hasKey(n, "else") {
		r.fail(n, "else is missing, for requests that no route matches: a policy, allow or deny")
	}
	if len(r.errs.List) == before {
		r.compileRoutes(d)
	}
	return d
}

// matches reads the routes of a set.
func (r *reader) matches(n *yaml.Node) (defs []routeDef) {
	r.pairs(n, "a mapping of patterns to policies", func(key, value *yaml.Node) {
		p, err := route.Parse(key.Value)
		if err != nil {
			r.fail(key, "%s", err)
			return
		}
		defs = append(defs, routeDef{p, r.at(key), *r.target(value)})
	})
	return defs
}

// target reads what requests ask: the name of a policy, allow, deny, or a mapping.
func (r *reader) target(n *yaml.Node) *targetDef {
	t := &targetDef{place: r.at(n)}
	if n.Kind == yaml.MappingNode {
		readMap(r, n, "{policy: name, …}", targetEntries, t)
		if !hasKey(n, "policy") {
			r.fail(n, "policy is missing")
		}
		return t
	}
	s, ok := r.scalar(n, "a policy, allow or deny")
	switch {
	case !ok:
	case s == wordAllow:
		t.answer = AllowAll
	case s == wordDeny:
		t.answer = DenyAll
	default:
		t.policy = r.policyName(n)
	}
	return t
}

// Words in the place of a policy.
const (
	wordAllow = "allow"
	wordDeny  = "deny"
)

// policyName reads the name of a policy.
func (r *reader) policyName(n *yaml.Node) string {
	s, ok := r.scalar(n, "the name of a policy")
	if ok && !isPolicyName(s) {
		r.fail(n, "%q %s", clip(s), policyNameError(s))
	}
	return s
}

// given reads attributes that a route gives.
func (r *reader) given(n *yaml.Node) (defs []givenDef) {
	r.pairs(n, "a mapping of attributes to where they are from, {user: {header: X-User}}", func(key, value *yaml.Node) {
		g := givenDef{name: key.Value, place: r.at(key)}
		if err := CheckAttributeName(g.name); err != nil {
			r.fail(key, "%s", err)
			return
		}
		switch {
		case value.Kind != yaml.MappingNode:
			if s, ok := r.scalar(value, "a value, or one of header, cookie, query and path"); ok {
				if g.key = s; len(s) > MaxValue {
					r.fail(value, "a value may have %d bytes", MaxValue)
				}
			}
		case len(value.Content) != 2:
			r.fail(value, "want one of header, cookie, query and path")
		default:
			readMap(r, value, "{header: X-User}", sourceEntries, &g)
		}
		defs = append(defs, g)
	})
	return defs
}

// source reads the name of a header field, a cookie, a parameter or a segment.
func (r *reader) source(n *yaml.Node, from Origin, g *givenDef) {
	s, ok := r.scalar(n, "a name")
	if !ok {
		return
	}
	token := strings.Trim(s, "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") == ""
	if from == FromHeader {
		s = http.CanonicalHeaderKey(s)
	}
	switch {
	case len(s) > maxSource:
		r.fail(n, "a name may have %d bytes", maxSource)
	case !token && (from == FromHeader || from == FromCookie):
		r.fail(n, "%q does not name a %s", clip(s), [...]string{FromHeader: "header field", FromCookie: "cookie"}[from])
	case from == FromHeader && s == "Authorization":
		r.fail(n, "Authorization is between the gateway and Headgate: have the gateway send whom it has verified in a field of its own")
	case from == FromHeader && s == "X-Forwarded-For":
		r.fail(n, "X-Forwarded-For is read as the attribute ip, past trusted proxies")
	}
	g.from, g.key = from, s
}

// compileRoutes makes the table of a set, and its routes.
func (r *reader) compileRoutes(d *routesDef) {
	s := &Routes{Name: routesPrefix + d.name, file: r.file, slash: d.slash, fold: d.fold == 1}
	patterns := make([]route.Pattern, len(d.routes))
	for i := range d.routes {
		x := &d.routes[i]
		patterns[i] = x.pattern
		s.routes = append(s.routes, r.compileRoute(d, &x.targetDef, x.pattern.String(), x.pattern.Params()))
	}
	s.other = r.compileRoute(d, d.other, "", nil)
	var err error
	if s.table, err = route.New(patterns, s.fold); err != nil {
		var c *route.Conflict
		if errors.As(err, &c) {
			r.failAt(d.routes[c.Pattern].place, "%s", c.Text)
		}
		return
	}
	d.set = s
}

// compileRoute makes a route of what its requests ask.
func (r *reader) compileRoute(d *routesDef, t *targetDef, pattern string, params []string) Route {
	c := Route{Pattern: pattern, Answer: t.answer, Policy: t.policy, Cost: t.cost, place: t.place}
	if t.answer != AskPolicy {
		return c
	}
	add := func(g *givenDef, own bool) {
		if c.Gives(g.name) {
			return
		}
		x := Given{Name: g.name, From: g.from, Key: g.key}
		if own {
			x.place = g.place
		}
		if g.from == FromPath {
			if x.Param = slices.Index(params, g.key); x.Param < 0 {
				if own {
					r.failAt(g.place, "the pattern has no {%s}%s", clip(g.key), nearest(g.key, params))
				}
				return // a set's attribute is for those of its routes that have the name
			}
		}
		c.Given = append(c.Given, x)
	}
	for i := range t.given {
		add(&t.given[i], true)
	}
	for i := range d.given {
		add(&d.given[i], false)
	}
	if len(c.Given) > MaxGiven {
		r.failAt(t.place, "a route may give %d attributes", MaxGiven)
	}
	return c
}

func matchFields(defs []routeDef) (fs []field) {
	for i := range defs {
		fs = append(fs, field{key: quote(defs[i].pattern.String()), value: defs[i].targetDef.String()})
	}
	return fs
}

// String returns what requests ask as the grammar has it.
func (t *targetDef) String() string {
	switch {
	case t.answer == AllowAll:
		return wordAllow
	case t.answer == DenyAll:
		return wordDeny
	case len(t.given) == 0 && t.cost == 0 && t.policy != wordAllow && t.policy != wordDeny:
		return quote(t.policy)
	}
	return inline(fieldsOf(targetEntries, t))
}

func givenText(defs []givenDef) string {
	parts := make([]string, len(defs))
	for i, g := range defs {
		parts[i] = g.name + ": " + quote(g.key)
		if g.from != Constant {
			parts[i] = fmt.Sprintf("%s: {%s: %s}", g.name, g.from, quote(g.key))
		}
	}
	return "{" + strings.Join(parts, ", ") + "}"
}
