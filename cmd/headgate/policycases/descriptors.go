package policycases

import (
	"fmt"
	"math"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/headgate-io/headgate/policy"
	"github.com/headgate-io/headgate/server/checks"
)

// descriptor reads one descriptor of a request into a step. Usually it is a mapping of its
// entries: {api_key: k1, path: /a}. If the descriptor has hits or a limit of its own, it is
// {entries: {api_key: k1}, hits_addend: 2, limit: 10/minute}.
func (r *reader) descriptor(n *yaml.Node, s *Step) error {
	var d policy.Asked
	err := r.entries(n, &d)
	if isWhole(n) {
		err = r.mapping(n, "a descriptor", keys{
			"entries": func(n *yaml.Node) error { return r.entries(n, &d) },
			"hits_addend": r.parsed(func(text string) error {
				d.HasHits = true
				return number(&d.Hits, math.MinInt32, math.MaxUint32)(text)
			}),
			"limit": r.parsed(func(text string) (err error) {
				d.Limit, err = checks.ParseAskedLimit(text)
				return err
			}),
		})
	}
	if err == nil {
		if err = policy.CheckAsked(&d); err != nil {
			err = r.fail(n, "%v", err)
		}
	}
	s.Descriptors = append(s.Descriptors, d)
	return err
}

// isWhole reports whether a descriptor is written in the second form, with a key `entries`.
func isWhole(n *yaml.Node) bool {
	if n.Kind != yaml.MappingNode {
		return false
	}
	for i := 0; i < len(n.Content); i += 2 {
		if n.Content[i].Value == "entries" && n.Content[i+1].Kind == yaml.MappingNode {
			return true
		}
	}
	return false
}

// entries reads the entries of a descriptor, in the order of the text. A key may occur
// twice.
func (r *reader) entries(n *yaml.Node, d *policy.Asked) error {
	if n.Kind != yaml.MappingNode {
		return r.fail(n, "a descriptor must be a mapping of keys to values")
	}
	d.Entries = nil
	for _, e := range n.Content {
		var text string
		if err := r.text(&text)(e); err != nil {
			return err
		}
		d.Entries = append(d.Entries, []byte(text))
	}
	return nil
}

// request returns the request of a step with descriptors.
func (s *Step) request() checks.TrialRequest {
	return checks.TrialRequest{Policy: s.Policy, Hits: s.Hits, Descriptors: s.Descriptors}
}

// ruled returns, for each descriptor, a line about the rule that applied.
func ruled(s *Step, each []checks.TrialDescriptor) (lines []string) {
	for i := range each {
		d := &each[i]
		line := entriesText(&s.Descriptors[i])
		switch {
		case d.Rule == "" || d.Outcome != policy.Counted:
			line += ": " + strings.TrimSpace(d.Rule+" "+d.String())
		default:
			line += ": " + d.Rule + " " + said(&d.TrialLimit)
		}
		lines = append(lines, line)
	}
	return lines
}

// entriesText returns a descriptor in the form of a case.
func entriesText(d *policy.Asked) string {
	var parts []string
	for i := 0; i+1 < len(d.Entries); i += 2 {
		parts = append(parts, fmt.Sprintf("%s: %s", d.Entries[i], d.Entries[i+1]))
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

// requestText returns the request in the form that a client sends.
func (s *Step) requestText() string {
	var b strings.Builder
	fmt.Fprintf(&b, "RL.DESCRIPTORS %s %d %d", s.Policy, s.Hits, len(s.Descriptors))
	for i := range s.Descriptors {
		d := &s.Descriptors[i]
		fmt.Fprintf(&b, " %d", len(d.Entries)/2)
		for _, e := range d.Entries {
			b.WriteString(" " + quoted(string(e)))
		}
		hits, limit := "-", "-"
		if d.HasHits {
			hits = fmt.Sprint(d.Hits)
		}
		if d.Limit.Unit != policy.NoUnit {
			limit = fmt.Sprintf("%d/%s", d.Limit.Requests, d.Limit.Unit)
			if d.Limit.Multiplier > 1 {
				limit += fmt.Sprintf("*%d", d.Limit.Multiplier)
			}
		}
		b.WriteString(" " + hits + " " + limit)
	}
	return b.String()
}
