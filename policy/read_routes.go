package policy

import (
	"fmt"
	"net/http"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/headgate-io/headgate/policy/route"
)

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
		d.compile(r.file, &r.errs)
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
	if err := CheckPolicyName(s); ok && err != nil {
		r.fail(n, "%q %s", clip(s), err)
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
