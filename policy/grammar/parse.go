package grammar

import (
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/headgate-io/headgate/policy"
)

// ParseFile reads a whole file: attributes, lists, policies and routes. file is the name of
// the text in errors. The error is an *Errors. Editor.Set makes the checks that need
// records outside the file.
func ParseFile(file string, b []byte) ([]*policy.Record, error) {
	if len(b) > MaxFile {
		return nil, tooLong(file, "a file", MaxFile)
	}
	r := &reader{file: file}
	parts := r.parts(b, pieceBytes)
	if err := r.errs.Result(); err != nil {
		return nil, err
	}
	records := parts.records()
	for _, rec := range records {
		rec.File = file
		r.checkSize(rec)
	}
	if err := r.errs.Result(); err != nil {
		return nil, err
	}
	return records, nil
}

// most returns the maximum length of the record's text.
func most(rec *policy.Record) int {
	switch rec.Kind {
	case policy.ListRecord:
		return MaxFile
	case policy.RoutesRecord:
		return MaxRoutesText
	}
	return MaxText
}

// checkSize refuses a record whose canonical text is too long: it could not be read
// again.
func (r *reader) checkSize(rec *policy.Record) {
	var weight int
	switch rec.Kind {
	case policy.AttributesRecord:
		weight = 100 * len(rec.Attributes)
	case policy.ListRecord:
		weight = rec.List.Weight
	case policy.RoutesRecord:
		weight = rec.Routes.Weight
	default:
		weight = rec.Definition.Weight
	}
	if weight > most(rec) && len(Format(rec)) > most(rec) {
		r.failAt(policy.Place{Path: &policy.Step{Name: rec.Name}}, "takes more than %d bytes", most(rec))
	}
}

// weigh returns a bound on the length of a tree's canonical text.
func weigh(n *yaml.Node) int {
	w := 40 + 6*len(n.Value)
	for _, c := range n.Content {
		w += weigh(c)
	}
	return w
}

// ParseRecord reads one record: the text that a file has under a policy's name, under
// `attributes`, or under the name of a list or of routes. file is the name of the text in
// errors. The error is an *Errors.
func ParseRecord(file, name string, b []byte) (*policy.Record, error) {
	r := &reader{file: file}
	rec := &policy.Record{Name: name, File: file}
	_, part, _ := strings.Cut(name, "/")
	rec.Kind = policy.KindOf(name)
	named := rec.Kind == policy.AttributesRecord || rec.Kind != policy.PolicyRecord && isListName(part)
	if err := policy.CheckPolicyName(name); err != nil && !named {
		return nil, &policy.Errors{List: []*policy.Error{{Text: fmt.Sprintf("%q %s", policy.Clip(name), err)}}}
	}
	if len(b) > most(rec) {
		return nil, tooLong(file, "the text of "+name, most(rec))
	}
	n := r.root(b)
	if n == nil {
		return nil, r.errs.Result()
	}
	r.record(rec, n, part)
	if len(r.errs.List) == 0 {
		r.checkSize(rec)
	}
	if err := r.errs.Result(); err != nil {
		return nil, err
	}
	return rec, nil
}

// record reads a record; part is its name without the prefix of its kind.
func (r *reader) record(rec *policy.Record, n *yaml.Node, part string) {
	switch rec.Kind {
	case policy.AttributesRecord:
		rec.Attributes = r.attributes(n)
	case policy.ListRecord:
		rec.List = &policy.ListDef{Name: part, Weight: weigh(n), Entries: r.entries(n)}
	case policy.RoutesRecord:
		rec.Routes = r.routes(part, n)
	default:
		rec.Definition = r.policy(rec.Name, n)
	}
}

func tooLong(file, what string, most int) error {
	return &policy.Errors{List: []*policy.Error{{File: file, Text: fmt.Sprintf("%s may have %d bytes", what, most)}}}
}
