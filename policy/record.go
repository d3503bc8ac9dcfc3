package policy

import (
	"errors"
	"slices"
	"strings"
)

// RecordKind is the kind of a record.
type RecordKind uint8

// Kinds of records.
const (
	PolicyRecord RecordKind = iota
	AttributesRecord
	ListRecord
	RoutesRecord
)

// KindOf returns the kind of the record with a name.
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

// RecordName returns the name of a record. name is the record's name among records of its
// kind.
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

// Record is a text that has been read and checked: a policy, a record that policies share,
// or routes. It is immutable.
type Record struct {
	// Name is the name of a policy, or `attributes`, or `lists/` or `routes/` followed by a
	// name.
	Name string
	Kind RecordKind

	File       string
	Definition *Definition
	Attributes []AttributeDef
	List       *ListDef
	Routes     *RoutesDef
}

// HasSecrets reports whether the record has attributes of type secret. A set with such a
// record needs the cluster's key.
func (rec *Record) HasSecrets() bool {
	all := rec.Attributes
	if rec.Definition != nil {
		all = rec.Definition.Attributes
	}
	return slices.ContainsFunc(all, func(a AttributeDef) bool { return a.Type&Secret != 0 })
}

// CheckPolicyName returns an error unless s can name a policy. A name consists of
// a-z, 0-9 and . _ / -, has at most MaxName bytes, and is not the name of another
// record.
func CheckPolicyName(s string) error {
	switch {
	case reservedRecord(s):
		return errors.New("is a reserved name and cannot name a policy")
	case !isPolicyName(s):
		return errors.New("does not name a policy: a-z, 0-9 and . _ / -, 64 at most")
	}
	return nil
}

// isPolicyName reports whether s can be the name of a policy. It consists of
// a-z, 0-9 and . _ / -, has at most MaxName bytes, and is not another record's
// name.
func isPolicyName(s string) bool {
	if s == "" || len(s) > MaxName {
		return false
	}
	for i := range len(s) {
		if b := s[i]; (b < 'a' || b > 'z') && (b < '0' || b > '9') && strings.IndexByte("._/-", b) < 0 {
			return false
		}
	}
	return !reservedRecord(s)
}

// reservedRecord reports whether s is reserved for records that are not policies, now or
// in a later release.
func reservedRecord(s string) bool {
	return s == attributesRecord || s == "routes" || s == "lists" || strings.HasPrefix(s, listPrefix) || strings.HasPrefix(s, routesPrefix)
}

// Names of records that are not policies.
const (
	attributesRecord = "attributes"
	listPrefix       = "lists/"
	routesPrefix     = "routes/"
)
