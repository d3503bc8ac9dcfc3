package policycases

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/headgate-io/headgate/policy"
)

// MaxFile bounds the length of a file of cases, in bytes.
const MaxFile = 16 << 20

// defaultStart is when a case begins if it does not say so: midnight in UTC, not at the end
// of a month.
var defaultStart = time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)

// Case is a list of calls. The counters are empty at the start of each case.
type Case struct {
	Name  string
	Line  int
	Start time.Time
	Steps []Step
}

// Step is a call, or several equal calls at the same time.
type Step struct {
	Line       int
	At         time.Duration // from the start of the case
	Policy     string
	Attributes []policy.Pair // sorted by name
	Cost       int64
	// Descriptors holds the descriptors of an Envoy request; Attributes and Cost are then
	// not used. Hits is the request's hits_addend.
	Descriptors []policy.Asked
	Hits        int64
	Times       int
	Expect      Expectation
	// Hold is the name that the case gives to the call's hold; "" if it gives none.
	Hold string
	// Settles is the name of the hold that the step settles by a commit or a cancel; the
	// step is then not a call. A commit has Attributes and, if Costs is set, Cost.
	Settles string
	Cancels bool
	Costs   bool
}

// maxTimes bounds the calls of a step.
const maxTimes = 1_000_000

// reader reads YAML node by node. So its errors can say where, and unknown keys are errors.
type reader struct{ file string }

// fail returns an error with the position of a node.
func (r *reader) fail(n *yaml.Node, format string, args ...any) error {
	if n.Kind == yaml.AliasNode {
		format, args = "aliases are not supported: write the value again", nil
	}
	return fmt.Errorf("%s:%d:%d: %s", r.file, n.Line, n.Column, fmt.Sprintf(format, args...))
}

// keys maps the keys of a mapping to functions that read their values.
type keys map[string]func(n *yaml.Node) error

// mapping reads a mapping, in the order of the text.
func (r *reader) mapping(n *yaml.Node, what string, known keys) error {
	if n.Kind != yaml.MappingNode {
		return r.fail(n, "%s must be a mapping", what)
	}
	seen := map[string]bool{}
	for i := 0; i < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		read := known[key.Value]
		switch {
		case read == nil:
			return r.fail(key, "unknown key %q in %s, use %s", key.Value, what, strings.Join(slices.Sorted(maps.Keys(known)), ", "))
		case seen[key.Value]:
			return r.fail(key, "%q is given twice", key.Value)
		}
		seen[key.Value] = true
		if err := read(value); err != nil {
			return err
		}
	}
	return nil
}

// list reads a list.
func (r *reader) list(n *yaml.Node, what string, read func(n *yaml.Node) error) error {
	if n.Kind != yaml.SequenceNode {
		return r.fail(n, "%s must be a list", what)
	}
	for _, item := range n.Content {
		if err := read(item); err != nil {
			return err
		}
	}
	return nil
}

// text returns a function that reads a scalar into to, as text of any YAML type.
func (r *reader) text(to *string) func(n *yaml.Node) error {
	return func(n *yaml.Node) error {
		if n.Kind != yaml.ScalarNode {
			return r.fail(n, "this must be a text or a number")
		}
		*to = n.Value
		return nil
	}
}

// parsed returns a function that reads a scalar and calls parse with its text.
func (r *reader) parsed(parse func(s string) error) func(n *yaml.Node) error {
	return func(n *yaml.Node) error {
		var s string
		if err := r.text(&s)(n); err != nil {
			return err
		}
		if err := parse(s); err != nil {
			return r.fail(n, "%v", err)
		}
		return nil
	}
}

// Parse reads a file of cases. The error names the file, the line and the column.
func Parse(file string, text []byte) (cases []Case, err error) {
	r := &reader{file}
	if len(text) > MaxFile {
		return nil, fmt.Errorf("%s: a file of cases has at most %d bytes", file, MaxFile)
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if len(doc.Content) == 0 {
		return nil, fmt.Errorf("%s: there are no cases", file)
	}
	start := defaultStart
	err = r.mapping(doc.Content[0], "a file of cases", keys{
		"start": r.parsed(parseStart(&start)),
		"cases": func(n *yaml.Node) error {
			return r.list(n, "cases", func(n *yaml.Node) error {
				c, err := r.testCase(n)
				cases = append(cases, c)
				return err
			})
		},
	})
	if err == nil && len(cases) == 0 {
		err = fmt.Errorf("%s: there are no cases", file)
	}
	for i := range cases { // `start` may come after the steps
		if cases[i].Start.IsZero() {
			cases[i].Start = start
		}
	}
	return cases, err
}

func parseStart(to *time.Time) func(s string) error {
	return func(s string) (err error) {
		if *to, err = time.Parse(time.RFC3339, s); err != nil || to.Unix() < 0 || to.Year() > 2099 {
			return fmt.Errorf("%q is not a time such as 2026-01-01T00:00:00Z, from 1970 to 2099", s)
		}
		return nil
	}
}
