package policy

import "go.yaml.in/yaml/v3"

// place is where something stands in its text.
type place struct {
	line, column int32
	path         *step
}

// step is the last step of a path, such as limits.user.by[1], and those before it.
// Nearly all paths are never written.
type step struct {
	up   *step
	name string
}

// String returns the path, "" for nil.
func (s *step) String() string {
	switch {
	case s == nil:
		return ""
	case s.up != nil && s.name[0] != '[':
		return s.up.String() + "." + s.name
	}
	return s.up.String() + s.name
}

// placeOf returns the place of a node, without a path.
func placeOf(n *yaml.Node) place { return place{line: int32(n.Line), column: int32(n.Column)} }

// text is a scalar, and where it stands.
type text struct {
	s string
	place
}

// definition is the checked tree of a policy: all that can be checked without
// the cluster's attributes and lists has been.
type definition struct {
	name       string
	weight     int // a bound of the length of its canonical text
	attributes []attributeDef
	lists      []*listDef
	onFailure  Failure
	backstop   int64 // 0: the server's
	durability Durability
	require    []text
	deny       []conditionDef
	allow      []conditionDef
	hold       Hold // what is not said, or is the default, is zero
	limits     []*limitDef
	overrides  []*overrideDef
	// descriptors are in place of limits, if dialect is set; then all above but
	// weight, onFailure, backstop and durability is empty.
	dialect     bool
	descriptors []*descriptorDef
}

type attributeDef struct {
	name  string
	Type  Type
	place place
}

// listDef is a named list of values.
type listDef struct {
	name    string
	place   place
	weight  int // as of a definition
	entries []text
}

type limitDef struct {
	Terms
	name, id string
	place    place
	by       []byDef
	rate     *numbersDef // the limit's own; nil with tiers
	tiers    *tiersDef
	when     conditionDef
	mode     Mode
	cost     costDef
	wait     *int64
	calendar *calendarDef // nil: none
	penalty  *Penalty     // nil: none
	ttl      int64        // of concurrent calls; 0: that of holds
}

// byDef is a part of `by`.
type byDef struct {
	place place
	attrs []string // alternatives
	// v4 and v6 are the lengths of prefixes, 0 for the defaults.
	v4, v6 uint8
}

// costDef is a constant, or the attribute that has the cost.
type costDef struct {
	constant  int64
	attribute string
	place     place
}

// numbersDef is what a tier or an override says. What it does not say is nil.
type numbersDef struct {
	place place
	rate  *Rate
	mode  *Mode
	cost  *costDef
}

type tiersDef struct {
	attribute text
	tiers     []tierDef // default is the last one
}

type tierDef struct {
	name string
	numbersDef
}

const defaultTier = "default"

// conditionDef has a clause for each attribute that it asks for.
type conditionDef []clauseDef

type clauseDef struct {
	attribute string
	test      test
	values    []text
	list      text // the name of a list, or ""
	place     place
}

type overrideDef struct {
	place  place
	when   conditionDef
	limits []overriddenDef
	until  int64 // 0: for good
}

type overriddenDef struct {
	limit string
	numbersDef
}

// limit returns the limit of a name, or nil.
func (d *definition) limit(name string) *limitDef {
	for _, l := range d.limits {
		if l.name == name {
			return l
		}
	}
	return nil
}

// limitNames returns the names of the limits, in order.
func (d *definition) limitNames() []string {
	names := make([]string, len(d.limits))
	for i, l := range d.limits {
		names[i] = l.name
	}
	return names
}

// forget drops the paths of what has been checked to the end: ten thousand
// policies would keep some megabytes of them.
func (d *definition) forget() {
	for _, l := range d.limits {
		l.place.path = nil
		if l.calendar != nil {
			l.calendar.place.path, l.calendar.anchor.path = nil, nil
		}
		if l.rate != nil {
			l.rate.place.path = nil
		}
		if l.tiers != nil {
			for i := range l.tiers.tiers {
				l.tiers.tiers[i].place.path = nil
			}
		}
	}
}
