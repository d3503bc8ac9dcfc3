package grammar

import (
	"fmt"
	"net/http"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/headgate-io/headgate/policy"
	"github.com/headgate-io/headgate/policy/route"
)

// routeSets reads named sets of routes.
func (r *reader) routeSets(n *yaml.Node) (defs []*policy.RoutesDef) {
	r.pairs(n, "a mapping of names to routes", func(key, value *yaml.Node) {
		if !isListName(key.Value) {
			r.fail(key, "does not name a set of routes: a-z, 0-9, _ and -, a letter first, %d at most", policy.MaxWord)
			return
		}
		defs = append(defs, r.routes(key.Value, value))
	})
	return defs
}

// routes reads a set of routes, and compiles it.
func (r *reader) routes(name string, n *yaml.Node) *policy.RoutesDef {
	d := &policy.RoutesDef{Name: name, Weight: weigh(n)}
	before := len(r.errs.List)
	readMap(r, n, "a mapping with else and match", routesEntries, d)
	if n.Kind == yaml.MappingNode && !hasKey(n, "else") {
		r.fail(n, "else is missing, for requests that no route matches: a policy, allow or deny")
	}
	if len(r.errs.List) == before {
		d.Compile(r.file, &r.errs)
	}
	return d
}

// matches reads the routes of a set.
func (r *reader) matches(n *yaml.Node) (defs []policy.RouteDef) {
	r.pairs(n, "a mapping of patterns to policies", func(key, value *yaml.Node) {
		p, err := route.Parse(key.Value)
		if err != nil {
			r.fail(key, "%s", err)
			return
		}
		defs = append(defs, policy.RouteDef{Pattern: p, Place: r.at(key), TargetDef: *r.target(value)})
	})
	return defs
}

// target reads what requests ask for: the name of a policy, allow, deny, or a mapping.
func (r *reader) target(n *yaml.Node) *policy.TargetDef {
	t := &policy.TargetDef{Place: r.at(n)}
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
		t.Answer = policy.AllowAll
	case s == wordDeny:
		t.Answer = policy.DenyAll
	default:
		t.Policy = r.policyName(n)
	}
	return t
}

// Words that replace the name of a policy.
const (
	wordAllow = "allow"
	wordDeny  = "deny"
)

// policyName reads the name of a policy.
func (r *reader) policyName(n *yaml.Node) string {
	s, ok := r.scalar(n, "the name of a policy")
	if err := policy.CheckPolicyName(s); ok && err != nil {
		r.fail(n, "%q %s", policy.Clip(s), err)
	}
	return s
}

// given reads attributes that a route gives.
func (r *reader) given(n *yaml.Node) (defs []policy.GivenDef) {
	r.pairs(n, "a mapping of attributes to where they are from, {user: {header: X-User}}", func(key, value *yaml.Node) {
		g := policy.GivenDef{Name: key.Value, Place: r.at(key)}
		if err := policy.CheckAttributeName(g.Name); err != nil {
			r.fail(key, "%s", err)
			return
		}
		switch {
		case value.Kind != yaml.MappingNode:
			if s, ok := r.scalar(value, "a value, or one of header, cookie, query and path"); ok {
				if g.Key = s; len(s) > policy.MaxValue {
					r.fail(value, "a value may have %d bytes", policy.MaxValue)
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
func (r *reader) source(n *yaml.Node, from policy.Origin, g *policy.GivenDef) {
	s, ok := r.scalar(n, "a name")
	if !ok {
		return
	}
	token := strings.Trim(s, "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") == ""
	if from == policy.FromHeader {
		s = http.CanonicalHeaderKey(s)
	}
	switch {
	case len(s) > maxSource:
		r.fail(n, "a name may have %d bytes", maxSource)
	case !token && (from == policy.FromHeader || from == policy.FromCookie):
		r.fail(n, "%q does not name a %s", policy.Clip(s), [...]string{policy.FromHeader: "header field", policy.FromCookie: "cookie"}[from])
	case from == policy.FromHeader && s == "Authorization":
		r.fail(n, "Authorization holds the gateway's own credentials for Headgate: let the gateway send the verified caller in another header field")
	case from == policy.FromHeader && s == "X-Forwarded-For":
		r.fail(n, "X-Forwarded-For is read as the attribute ip, past trusted proxies")
	}
	g.From, g.Key = from, s
}

func matchFields(defs []policy.RouteDef) (fs []Field) {
	for i := range defs {
		fs = append(fs, Field{Key: policy.Quote(defs[i].Pattern.String()), Value: targetText(&defs[i].TargetDef)})
	}
	return fs
}

// targetText returns what requests ask for, in the grammar's form.
func targetText(t *policy.TargetDef) string {
	switch {
	case t.Answer == policy.AllowAll:
		return wordAllow
	case t.Answer == policy.DenyAll:
		return wordDeny
	case len(t.Given) == 0 && t.Cost == 0 && t.Policy != wordAllow && t.Policy != wordDeny:
		return policy.Quote(t.Policy)
	}
	return Inline(fieldsOf(targetEntries, t))
}

func givenText(defs []policy.GivenDef) string {
	parts := make([]string, len(defs))
	for i, g := range defs {
		parts[i] = g.Name + ": " + policy.Quote(g.Key)
		if g.From != policy.Constant {
			parts[i] = fmt.Sprintf("%s: {%s: %s}", g.Name, g.From, policy.Quote(g.Key))
		}
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

// maxSource is the length of the name of a header field, a cookie or a parameter.
const maxSource = 64
