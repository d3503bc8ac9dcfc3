package policy

import (
	"errors"
	"slices"

	"github.com/headgate-io/headgate/policy/route"
)

// Compile makes the set's table and its routes, and adds errors to errs.
func (d *RoutesDef) Compile(file string, errs *Errors) {
	s := &Routes{Name: RecordName(RoutesRecord, d.Name), file: file, slash: d.Slash, fold: d.Fold}
	patterns := make([]route.Pattern, len(d.Routes))
	for i := range d.Routes {
		x := &d.Routes[i]
		patterns[i] = x.Pattern
		s.routes = append(s.routes, d.compiled(&x.TargetDef, x.Pattern.String(), x.Pattern.Params(), file, errs))
	}
	s.other = d.compiled(d.Other, "", nil, file, errs)
	var err error
	if s.table, err = route.New(patterns, s.fold); err != nil {
		var c *route.Conflict
		if errors.As(err, &c) {
			errs.Add(d.Routes[c.Pattern].Place.Error(file, "%s", c.Text))
		}
		return
	}
	d.Set = s
}

// compiled makes a route's compiled form.
func (d *RoutesDef) compiled(t *TargetDef, pattern string, params []string, file string, errs *Errors) Route {
	c := Route{Pattern: pattern, Answer: t.Answer, Policy: t.Policy, Cost: t.Cost, place: t.Place}
	if t.Answer != AskPolicy {
		return c
	}
	add := func(g *GivenDef, own bool) {
		if c.Gives(g.Name) {
			return
		}
		x := Given{Name: g.Name, From: g.From, Key: g.Key}
		if own {
			x.place = g.Place
		}
		if g.From == FromPath {
			if x.Param = slices.Index(params, g.Key); x.Param < 0 {
				if own {
					errs.Add(g.Place.Error(file, "the pattern has no {%s}%s", Clip(g.Key), Nearest(g.Key, params)))
				}
				return // an attribute of the set is only for routes that have the name
			}
		}
		c.Given = append(c.Given, x)
	}
	for i := range t.Given {
		add(&t.Given[i], true)
	}
	for i := range d.Given {
		add(&d.Given[i], false)
	}
	if len(c.Given) > MaxGiven {
		errs.Add(t.Place.Error(file, "a route may give at most %d attributes", MaxGiven))
	}
	return c
}
