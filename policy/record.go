package policy

import (
	"fmt"
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
)

// Record is a text that has been read and checked: a policy, or what policies
// share. Nothing in it changes.
type Record struct {
	// Name is a policy's, `attributes`, or `lists/` and a list's name.
	Name string
	Kind RecordKind

	file       string
	definition *definition
	attributes []attributeDef
	list       *listDef
}

// ParseFile reads a whole file: attributes, lists and policies. file is what
// errors call it. The error is an *Errors. What depends on records that are not
// in the file is checked by Editor.Set.
func ParseFile(file string, b []byte) ([]*Record, error) {
	if len(b) > MaxFile {
		return nil, tooLong(file, "a file", MaxFile)
	}
	r := &reader{file: file}
	n := r.root(b)
	if n == nil {
		return nil, r.errs.result()
	}
	var parts fileParts
	readMap(r, n, "a mapping with policies", fileEntries, &parts)
	if err := r.errs.result(); err != nil {
		return nil, err
	}
	var records []*Record
	if parts.given {
		records = append(records, &Record{Name: attributesRecord, Kind: AttributesRecord, file: file, attributes: parts.attributes})
	}
	for _, l := range parts.lists {
		records = append(records, &Record{Name: listPrefix + l.name, Kind: ListRecord, file: file, list: l})
	}
	for _, d := range parts.policies {
		records = append(records, &Record{Name: d.name, file: file, definition: d})
	}
	return records, nil
}

// ParseRecord reads one record: what stands under the policy's name in a file,
// under `attributes`, or under the name of a list. file is what errors call the
// text. The error is an *Errors.
func ParseRecord(file, name string, b []byte) (*Record, error) {
	r := &reader{file: file}
	rec := &Record{Name: name, file: file}
	list, isList := strings.CutPrefix(name, listPrefix)
	most := MaxText
	switch {
	case name == attributesRecord:
		rec.Kind = AttributesRecord
	case isList && isListName(list):
		rec.Kind, most = ListRecord, MaxFile
	case !isPolicyName(name):
		return nil, &Errors{List: []*Error{{Text: fmt.Sprintf("%q %s", clip(name), policyNameError(name))}}}
	}
	if len(b) > most {
		return nil, tooLong(file, "the text of "+name, most)
	}
	n := r.root(b)
	if n == nil {
		return nil, r.errs.result()
	}
	rec.read(r, n, list)
	if err := r.errs.result(); err != nil {
		return nil, err
	}
	return rec, nil
}

func (rec *Record) read(r *reader, n *yaml.Node, list string) {
	switch rec.Kind {
	case AttributesRecord:
		rec.attributes = r.attributes(n)
	case ListRecord:
		rec.list = &listDef{name: list, entries: r.entries(n)}
	default:
		rec.definition = r.policy(rec.Name, n)
	}
}

func tooLong(file, what string, most int) error {
	return &Errors{List: []*Error{{File: file, Text: fmt.Sprintf("%s may have %d bytes", what, most)}}}
}
