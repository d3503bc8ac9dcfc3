package policy

import (
	"errors"
	"slices"

	"github.com/headgate-io/headgate/policy/route"
)

// compile makes what the set says: its table, and its routes. What is wrong is added to
// errs.
func (d *routesDef) compile(file string, errs *Errors) {
	s := &Routes{Name: RecordName(RoutesRecord, d.name), file: file, slash: d.slash, fold: d.fold}
	patterns := make([]route.Pattern, len(d.routes))
	for i := range d.routes {
		x := &d.routes[i]
		patterns[i] = x.pattern
		s.routes = append(s.routes, d.compiled(&x.targetDef, x.pattern.String(), x.pattern.Params(), file, errs))
	}
	s.other = d.compiled(d.other, "", nil, file, errs)
	var err error
	if s.table, err = route.New(patterns, s.fold); err != nil {
		var c *route.Conflict
		if errors.As(err, &c) {
			errs.add(d.routes[c.Pattern].place.Error(file, "%s", c.Text))
		}
		return
	}
	d.set = s
}

// compiled makes a route of what its requests ask.
func (d *routesDef) compiled(t *targetDef, pattern string, params []string, file string, errs *Errors) Route {
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
					errs.add(g.place.Error(file, "the pattern has no {%s}%s", clip(g.key), nearest(g.key, params)))
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
		errs.add(t.place.Error(file, "a route may give %d attributes", MaxGiven))
	}
	return c
}
