package policycases

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/headgate-io/headgate/policy"
)

// testCase reads a case.
func (r *reader) testCase(n *yaml.Node) (c Case, err error) {
	c.Line = n.Line
	own := Step{Cost: 1, Times: 1}
	var steps *yaml.Node
	err = r.mapping(n, "a case", keys{
		"name":       r.text(&c.Name),
		"start":      r.parsed(parseStart(&c.Start)),
		"policy":     r.text(&own.Policy),
		"domain":     r.text(&own.Policy),
		"attributes": r.attributes(&own.Attributes),
		"steps":      func(n *yaml.Node) error { steps = n; return nil },
	})
	switch {
	case err != nil:
		return c, err
	case c.Name == "":
		return c, r.fail(n, "the case has no name")
	case steps == nil || len(steps.Content) == 0:
		return c, r.fail(n, "the case has no steps")
	}
	at := time.Duration(0)
	return c, r.list(steps, "steps", func(n *yaml.Node) error {
		s, err := r.step(n, own, at)
		c.Steps, at = append(c.Steps, s), s.At
		return err
	})
}

// step reads a step. defaults holds what the case sets for all steps, and previous is the
// time of the previous step.
func (r *reader) step(n *yaml.Node, defaults Step, previous time.Duration) (Step, error) {
	s := defaults
	s.Line, s.At = n.Line, previous
	timed := false
	when := func(from time.Duration) func(n *yaml.Node) error {
		return r.parsed(func(text string) error {
			d, err := policy.ParseDuration(text)
			if err != nil {
				return err
			}
			if timed {
				return fmt.Errorf("a step has at or after, not both")
			}
			timed = true
			if s.At = from + time.Duration(d); s.At < previous || s.At > maxSpan {
				return fmt.Errorf("times only go forward: want %s to %s", policy.FormatDuration(int64(previous)), policy.FormatDuration(int64(maxSpan)))
			}
			return nil
		})
	}
	timing := keys{"at": when(0), "after": when(previous)}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if key := n.Content[i].Value; key == "commit" || key == "cancel" {
			return s, r.settlement(n, &s, key, timing)
		}
	}
	s.Attributes = slices.Clone(defaults.Attributes)
	known := keys{
		"policy":     r.text(&s.Policy),
		"domain":     r.text(&s.Policy),
		"attributes": r.attributes(&s.Attributes),
		"descriptors": func(n *yaml.Node) error {
			return r.list(n, "descriptors", func(n *yaml.Node) error { return r.descriptor(n, &s) })
		},
		"hits_addend": r.parsed(number(&s.Hits, 0, math.MaxUint32)),
		"cost":        r.parsed(number(&s.Cost, 0, math.MaxInt64/2)),
		"times": r.parsed(func(text string) error {
			var times int64
			err := number(&times, 1, maxTimes)(text)
			s.Times = int(times)
			return err
		}),
	}
	known["hold"] = r.text(&s.Hold)
	known["commit"], known["cancel"] = r.text(&s.Settles), r.text(&s.Settles) // step reads them, but errors about unknown keys must name them too
	maps.Copy(known, timing)
	r.expectation(&s.Expect, known)
	if err := r.mapping(n, "a step", known); err != nil {
		return s, err
	}
	if s.Hold != "" && s.Times != 1 {
		return s, r.fail(n, "a hold is of one call")
	}
	if s.Policy == "" {
		return s, r.fail(n, "neither the step nor its case names a policy")
	}
	switch {
	case len(s.Descriptors) > policy.MaxDescriptors:
		return s, r.fail(n, "a request has up to %d descriptors", policy.MaxDescriptors)
	case len(s.Descriptors) > 0 && (len(s.Attributes) > 0 || s.Cost != 1 || s.Hold != ""):
		return s, r.fail(n, "a request with descriptors can have hits_addend, but attributes, cost and hold are not allowed")
	case len(s.Descriptors) == 0 && s.Hits != 0:
		return s, r.fail(n, "hits_addend is of descriptors")
	}
	if err := s.Expect.check(); err != nil {
		return s, r.fail(n, "%v", err)
	}
	return s, nil
}

// settlement reads a step that settles a hold and is not a call. The case's defaults for
// steps do not apply, because RL.COMMIT takes only costs.
func (r *reader) settlement(n *yaml.Node, s *Step, how string, known keys) error {
	s.Policy, s.Attributes = "", nil
	known[how] = r.text(&s.Settles)
	if s.Cancels = how == "cancel"; s.Cancels {
		return r.mapping(n, "a step that cancels", known)
	}
	known["attributes"] = r.attributes(&s.Attributes)
	known["cost"] = r.parsed(func(text string) error {
		s.Costs = true
		return number(&s.Cost, 0, policy.MaxUnits)(text)
	})
	return r.mapping(n, "a step that commits", known)
}

// maxSpan bounds the time of a step, counted from the start of its case.
const maxSpan = 10 * 365 * 24 * time.Hour

// attributes returns a function that reads attributes into a list. The list may already
// have the case's attributes, and a step adds attributes or changes their values. An empty
// value means that the attribute is absent.
func (r *reader) attributes(to *[]policy.Pair) func(n *yaml.Node) error {
	return func(n *yaml.Node) error {
		if n.Kind != yaml.MappingNode {
			return r.fail(n, "attributes must be a mapping of names to values")
		}
		seen := map[string]bool{}
		for i := 0; i < len(n.Content); i += 2 {
			var p policy.Pair
			if err := r.text(&p.Name)(n.Content[i]); err != nil {
				return err
			}
			if err := r.text(&p.Value)(n.Content[i+1]); err != nil {
				return err
			}
			if seen[p.Name] {
				return r.fail(n.Content[i], "%q is given twice", p.Name)
			}
			seen[p.Name] = true
			*to = slices.DeleteFunc(*to, func(old policy.Pair) bool { return old.Name == p.Name })
			*to = append(*to, p)
		}
		slices.SortFunc(*to, func(a, b policy.Pair) int { return strings.Compare(a.Name, b.Name) })
		return nil
	}
}

// number returns a function that parses a whole number from least to most.
func number(to *int64, least, most int64) func(s string) error {
	return func(s string) (err error) {
		if *to, err = strconv.ParseInt(strings.ReplaceAll(s, "_", ""), 10, 64); err != nil || *to < least || *to > most {
			return fmt.Errorf("%q is not a whole number from %d to %d", s, least, most)
		}
		return nil
	}
}
