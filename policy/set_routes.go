package policy

import (
	"maps"
	"slices"
)

// CheckRoutes returns an *Errors for routes whose policy is missing or has descriptors; nil
// if there are none.
func (s *Set) CheckRoutes() error {
	return s.eachRoute(func(set *Routes, r *Route) *Error {
		switch p := s.policies.named(r.Policy); {
		case p == nil:
		case p.descriptors != nil:
			return set.errorAt(r.place, "policy %q has descriptors: a route needs a policy with limits", r.Policy)
		default:
			return nil
		}
		return set.errorAt(r.place, "there is no policy %q%s", Clip(r.Policy), Nearest(r.Policy, s.names))
	})
}

// CheckAddresses returns an *Errors for routes to policies that count by the client's
// address; nil if there are none. It is for a node without trusted proxies, where all
// callers seem to have the address of their gateway.
func (s *Set) CheckAddresses() error {
	return s.eachRoute(func(set *Routes, r *Route) *Error {
		if p := s.policies.named(r.Policy); p == nil || !p.Knows([]byte(IPAttribute)) || r.Gives(IPAttribute) {
			return nil
		}
		return set.errorAt(r.place, "policy %q counts by ip, but the addresses of clients are unknown: set trusted-proxies to the gateway's address", r.Policy)
	})
}

// eachRoute returns the errors of all routes that ask a policy.
func (s *Set) eachRoute(wrong func(*Routes, *Route) *Error) error {
	var errs Errors
	for _, name := range slices.Sorted(maps.Keys(s.routes)) {
		set := s.routes[name]
		for r := range set.all {
			if r.Answer != AskPolicy {
				continue
			}
			if err := wrong(set, r); err != nil {
				errs.Add(err)
			}
		}
	}
	return errs.Result()
}

// RouteWarnings returns the parts of routes that have no effect: attributes that the
// route's policy does not use. grammar.Warnings does the same for policies.
func (s *Set) RouteWarnings() (found []*Error) {
	for _, name := range slices.Sorted(maps.Keys(s.routes)) {
		set := s.routes[name]
		for r := range set.all {
			p := s.policies.named(r.Policy)
			if r.Answer != AskPolicy || p == nil {
				continue
			}
			for i := range r.Given {
				if g := &r.Given[i]; g.place.Line > 0 && !p.Knows([]byte(g.Name)) {
					found = append(found, set.errorAt(g.place, "policy %q has no use for the attribute %q%s", r.Policy, g.Name, Nearest(g.Name, p.attrs.names)))
				}
			}
		}
	}
	return found
}

// Routes returns a set of routes by the name of its record; nil if there is none.
func (s *Set) Routes(name string) *Routes { return s.routes[name] }
