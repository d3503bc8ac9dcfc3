package policies

import (
	"slices"

	"github.com/headgate-io/headgate/policy"
)

// Routes returns a set of routes by the name of its record, or nil. It does not wait for a
// pending change.
func (b *Book) Routes(name string) *policy.Routes {
	set, _ := b.Current()
	return set.Routes(name)
}

// hasRoutes reports whether some edits change routes.
func hasRoutes(edits []bookEdit) bool {
	return slices.ContainsFunc(edits, func(e bookEdit) bool { return policy.KindOf(e.name) == policy.RoutesRecord })
}

// warnOfRoutes logs a warning for routes that another node has accepted and that this node
// cannot serve.
func (b *Book) warnOfRoutes(set *policy.Set) {
	if err := set.CheckAddresses(); err != nil {
		b.log.Warn("this node cannot use the routes: gateways get 503", "error", err)
	}
}

// routeWarnings returns the parts of a set's routes that have no effect, one text per line.
// If the change does not concern routes, it returns none.
func (c *change) routeWarnings(set *policy.Set) (lines []string) {
	if !slices.ContainsFunc(c.edits, func(e edit) bool { return policy.KindOf(e.name) == policy.RoutesRecord }) {
		return nil
	}
	for _, w := range set.RouteWarnings() {
		lines = append(lines, "warning: "+w.Error())
	}
	return lines
}
