package grammar

import (
	"slices"

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

// checkHome checks that every limit counts by the home.
func checkHome(r *reader, d *policy.Definition) {
	choices := d.HomeChoices()
	for _, home := range d.Home {
		if len(d.Limits) > 0 && !slices.Contains(choices, home.S) {
			r.failAt(home.Place, "every limit must count by %q, alone and not as one of several (a|b), or it cannot be the home%s", policy.Clip(home.S), policy.Nearest(home.S, choices))
		}
	}
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
		return warn("no attribute is in `by` of every limit, so the first group decides all calls of the policy: write `home: []` if that is right")
	case 1:
		return nil
	default:
		return warn("one group decides all callers with the same %q: write `home: %s` if that is right, or `home: %s` to spread the callers by that", choices[0], choices[0], choices[1])
	}
}
