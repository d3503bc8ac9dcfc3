package policy

import (
	"slices"
	"strings"
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

// RecordName returns the name of a record of a kind, of which name is the part that
// tells it from others: KindOf returns the kind again.
func RecordName(kind RecordKind, name string) string {
	switch kind {
	case AttributesRecord:
		return attributesRecord
	case ListRecord:
		return listPrefix + name
	case RoutesRecord:
		return routesPrefix + name
	}
	return name
}

// Record is a text that has been read and checked: a policy, what policies share, or
// routes to them. Nothing in it changes.
type Record struct {
	// Name is a policy's, `attributes`, or `lists/` or `routes/` and a name.
	Name string
	Kind RecordKind

	File       string
	Definition *Definition
	Attributes []AttributeDef
	List       *ListDef
	Routes     *RoutesDef
}

// HasSecrets reports whether the record has attributes of type secret: a set with
// it needs the cluster's key.
func (rec *Record) HasSecrets() bool {
	all := rec.Attributes
	if rec.Definition != nil {
		all = rec.Definition.Attributes
	}
	return slices.ContainsFunc(all, func(a AttributeDef) bool { return a.Type&Secret != 0 })
}
