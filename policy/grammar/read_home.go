package grammar

import (
	"go.yaml.in/yaml/v3"

	"github.com/headgate-io/headgate/policy"
)

// readHome reads the home of a policy: the name of an attribute, in a list or not, or an empty
// list.
func readHome(r *reader, n *yaml.Node) []policy.Scalar {
	if n.Kind == yaml.SequenceNode && len(n.Content) == 0 {
		return nil
	}
	names := r.names(n)
	if len(names) > 1 {
		r.fail(n, "a home is one attribute, and not %d", len(names))
		return names[:1]
	}
	return names
}

// checkHome checks the home of the text. A call may need a second group, for the limits that
// do not count by the home, but not a third.
func checkHome(r *reader, d *policy.Definition) {
	for _, home := range d.Home {
		ceilings := d.Ceilings()
		if len(ceilings) == 0 {
			return
		}
		if len(ceilings) == len(d.Limits) {
			r.failAt(home.Place, "a limit must count by %q, alone and not as one of several (a|b), or it cannot be the home%s", policy.Clip(home.S), policy.Nearest(home.S, counted(d)))
			return
		}
		if _, ok := d.CeilingName(); !ok {
			r.failAt(ceilings[0].Place, "a call would need a third group: the limits that do not count by %q, the home, must all count by one other attribute, or by nothing", policy.Clip(home.S))
		}
		if d.Hold != (policy.Hold{}) {
			r.failAt(ceilings[0].Place, "a policy with hold needs limits that all count by %q, the home: a hold is in one group", policy.Clip(home.S))
		}
		for _, l := range d.Limits {
			if l.Algorithm == policy.Concurrent {
				r.failAt(l.Place, "a policy with a limit of concurrent calls needs limits that all count by %q, the home: a slot is in one group", policy.Clip(home.S))
			}
		}
	}
}

// counted returns the attributes by which a limit counts, alone.
func counted(d *policy.Definition) (names []string) {
	for _, l := range d.Limits {
		names = append(names, (&policy.Definition{Limits: []*policy.LimitDef{l}}).HomeChoices()...)
	}
	return names
}

// homeText returns the home of the text in the grammar's form; "" if the text has none.
func homeText(d *policy.Definition) string {
	switch {
	case !d.Homed:
		return ""
	case len(d.Home) == 0:
		return "[]"
	}
	return policy.Flow(d.Home)
}

// HomeWarnings returns what a policy's author should decide for a cluster with several
// groups. Without a home in the text, the server guesses one from the limits, or lets the
// first group decide all calls.
func HomeWarnings(rec *policy.Record) []*policy.Error {
	d := rec.Definition
	if rec.Kind != policy.PolicyRecord || d.Homed || d.Dialect || len(d.Limits) == 0 {
		return nil
	}
	warn := func(format string, args ...any) []*policy.Error {
		return []*policy.Error{d.Limits[0].Place.Error(rec.File, format, args...)}
	}
	switch choices := d.HomeChoices(); len(choices) {
	case 0:
		return warn("no attribute is in `by` of every limit, so the first group decides all calls of the policy: write `home: []` if that is right, or name the home of most limits")
	case 1:
		return nil
	default:
		return warn("one group decides all callers with the same %q: write `home: %s` if that is right, or `home: %s` to spread the callers by that", choices[0], choices[0], choices[1])
	}
}
