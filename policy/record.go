package policy

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// RecordKind tells what a record is.
type RecordKind uint8

// Kinds of records.
const (
	PolicyRecord RecordKind = iota
	AttributesRecord
	ListRecord
	RoutesRecord
)

// KindOf returns the kind of the record of a name.
func KindOf(name string) RecordKind {
	switch {
	case name == attributesRecord:
		return AttributesRecord
	case strings.HasPrefix(name, listPrefix):
		return ListRecord
	case strings.HasPrefix(name, routesPrefix):
		return RoutesRecord
	}
	return PolicyRecord
}

// Record is a text that has been read and checked: a policy, what policies share, or
// routes to them. Nothing in it changes.
type Record struct {
	// Name is a policy's, `attributes`, or `lists/` or `routes/` and a name.
	Name string
	Kind RecordKind

	file       string
	definition *definition
	attributes []attributeDef
	list       *listDef
	routes     *routesDef
}

// ParseFile reads a whole file: attributes, lists, policies and routes. file is what
// errors call it. The error is an *Errors. What depends on records that are not
// in the file is checked by Editor.Set.
func ParseFile(file string, b []byte) ([]*Record, error) {
	if len(b) > MaxFile {
		return nil, tooLong(file, "a file", MaxFile)
	}
	r := &reader{file: file}
	parts := r.parts(b, pieceBytes)
	if err := r.errs.result(); err != nil {
		return nil, err
	}
	records := parts.records()
	for _, rec := range records {
		rec.file = file
		rec.checkSize(r)
	}
	if err := r.errs.result(); err != nil {
		return nil, err
	}
	return records, nil
}

// HasSecrets reports whether the record has attributes of type secret: a set with
// it needs the cluster's key.
func (rec *Record) HasSecrets() bool {
	all := rec.attributes
	if rec.definition != nil {
		all = rec.definition.attributes
	}
	return slices.ContainsFunc(all, func(a attributeDef) bool { return a.Type&Secret != 0 })
}

// most is how long the text of the record may be.
func (rec *Record) most() int {
	switch rec.Kind {
	case ListRecord:
		return MaxFile
	case RoutesRecord:
		return MaxRoutesText
	}
	return MaxText
}

// checkSize refuses a record whose canonical text is longer than a text may be:
// it could not be read again.
func (rec *Record) checkSize(r *reader) {
	var weight int
	switch rec.Kind {
	case AttributesRecord:
		weight = 100 * len(rec.attributes)
	case ListRecord:
		weight = rec.list.weight
	case RoutesRecord:
		weight = rec.routes.weight
	default:
		weight = rec.definition.weight
	}
	if weight > rec.most() && len(rec.Text()) > rec.most() {
		r.failAt(place{path: &step{name: rec.Name}}, "takes more than %d bytes", rec.most())
	}
}

// weigh returns a bound of the length of a tree's canonical text.
func weigh(n *yaml.Node) int {
	w := 40 + 6*len(n.Value)
	for _, c := range n.Content {
		w += weigh(c)
	}
	return w
}

// ParseRecord reads one record: what stands under the policy's name in a file,
// under `attributes`, or under the name of a list or of routes. file is what errors call the
// text. The error is an *Errors.
func ParseRecord(file, name string, b []byte) (*Record, error) {
	r := &reader{file: file}
	rec := &Record{Name: name, file: file}
	_, part, _ := strings.Cut(name, "/")
	switch rec.Kind = KindOf(name); {
	case rec.Kind == AttributesRecord:
	case (rec.Kind == ListRecord || rec.Kind == RoutesRecord) && isListName(part):
	case !isPolicyName(name):
		return nil, &Errors{List: []*Error{{Text: fmt.Sprintf("%q %s", clip(name), policyNameError(name))}}}
	}
	if len(b) > rec.most() {
		return nil, tooLong(file, "the text of "+name, rec.most())
	}
	n := r.root(b)
	if n == nil {
		return nil, r.errs.result()
	}
	rec.read(r, n, part)
	if len(r.errs.List) == 0 {
		rec.checkSize(r)
	}
	if err := r.errs.result(); err != nil {
		return nil, err
	}
	return rec, nil
}

// read reads a record; part is its name without what tells its kind.
func (rec *Record) read(r *reader, n *yaml.Node, part string) {
	switch rec.Kind {
	case AttributesRecord:
		rec.attributes = r.attributes(n)
	case ListRecord:
		rec.list = &listDef{name: part, weight: weigh(n), entries: r.entries(n)}
	case RoutesRecord:
		rec.routes = r.routes(part, n)
	default:
		rec.definition = r.policy(rec.Name, n)
	}
}

func tooLong(file, what string, most int) error {
	return &Errors{List: []*Error{{File: file, Text: fmt.Sprintf("%s may have %d bytes", what, most)}}}
}
