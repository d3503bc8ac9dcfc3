package policy

import (
	"github.com/headgate-io/headgate/policy/calendar"
	"github.com/headgate-io/headgate/policy/route"
)

// Definition is the checked tree of a policy. Only checks that need the cluster's
// attributes and lists have not been made yet.
type Definition struct {
	Name       string
	Weight     int // bounds the length of the definition's canonical text
	Attributes []AttributeDef
	Lists      []*ListDef
	OnFailure  Failure
	Backstop   int64 // 0: the server's setting
	Durability Durability
	Require    []Scalar
	Deny       []ConditionDef
	Allow      []ConditionDef
	Hold       Hold // a field that is missing or has its default is zero
	// Home is the home in the text, at most one attribute. Homed says that the text has
	// one, perhaps of no attribute.
	Home      []Scalar
	Homed     bool
	Limits    []*LimitDef
	Overrides []*OverrideDef
	// Descriptors holds the policy's descriptors if Dialect is set. All fields above are
	// then empty, except Weight, OnFailure, Backstop and Durability.
	Dialect     bool
	Descriptors []*DescriptorDef
}

// AttributeDef is an attribute with its type.
type AttributeDef struct {
	Name  string
	Type  Type
	Place Place
}

// ListDef is a named list of values.
type ListDef struct {
	Name    string
	Place   Place
	Weight  int // as of a definition
	Entries []Scalar
}

// LimitDef is a limit of a text.
type LimitDef struct {
	Terms
	Name, ID string
	Place    Place
	By       []ByDef
	Rate     *NumbersDef // the limit's own; nil with tiers
	Tiers    *TiersDef
	When     ConditionDef
	Mode     Mode
	Cost     CostDef
	Wait     *int64
	Calendar *CalendarDef // nil: none
	Penalty  *Penalty     // nil: none
	Ttl      int64        // of concurrent calls; 0: that of holds
}

// ByDef is one part of `by`.
type ByDef struct {
	Place Place
	Attrs []string // alternatives
	// V4 and V6 are the lengths of prefixes, 0 for the defaults.
	V4, V6 uint8
}

// CostDef is a constant cost, or the attribute that has the cost.
type CostDef struct {
	Constant  int64
	Attribute string
	Place     Place
}

// NumbersDef is the text of a tier or an override. Fields that the text does not set are
// nil.
type NumbersDef struct {
	Place Place
	Rate  *Rate
	Mode  *Mode
	Cost  *CostDef
}

// TiersDef are the tiers of a limit.
type TiersDef struct {
	Attribute Scalar
	Tiers     []TierDef // default is the last one
}

// TierDef is a tier with its numbers.
type TierDef struct {
	Name string
	NumbersDef
}

// DefaultTier is the name of the tier of callers who are in no other tier.
const DefaultTier = "default"

// ConditionDef has one clause for each attribute in the condition.
type ConditionDef []ClauseDef

// ClauseDef is the requirement for one attribute.
type ClauseDef struct {
	Attribute string
	Test      Test
	Values    []Scalar
	List      Scalar // the name of a list, or ""
	Place     Place
}

// OverrideDef is an override of a text.
type OverrideDef struct {
	Place  Place
	When   ConditionDef
	Limits []OverriddenDef
	Until  int64 // 0: the override does not end
}

// OverriddenDef is a limit with the numbers that an override gives it.
type OverriddenDef struct {
	Limit string
	NumbersDef
}

// Limit returns the limit of a name, or nil.
func (d *Definition) Limit(name string) *LimitDef {
	for _, l := range d.Limits {
		if l.Name == name {
			return l
		}
	}
	return nil
}

// LimitWithID returns the limit of an id, or nil.
func (d *Definition) LimitWithID(id string) *LimitDef {
	for _, l := range d.Limits {
		if l.ID == id {
			return l
		}
	}
	return nil
}

// LimitNames returns the names of the limits, in order.
func (d *Definition) LimitNames() []string {
	names := make([]string, len(d.Limits))
	for i, l := range d.Limits {
		names[i] = l.Name
	}
	return names
}

// RoutesDef is the checked tree of a set of routes.
type RoutesDef struct {
	Name   string
	Weight int // as of a definition
	Given  []GivenDef
	Slash  Slashes
	Fold   bool // the case of letters does not count
	Routes []RouteDef
	Other  *TargetDef
	Set    *Routes // the compiled routes
}

// RouteDef is a pattern, and what its requests ask for.
type RouteDef struct {
	Pattern route.Pattern
	Place   Place
	TargetDef
}

// TargetDef is what requests ask for.
type TargetDef struct {
	Place  Place
	Answer Answer
	Policy string
	Given  []GivenDef
	Cost   int64 // 0: the text gives no cost
}

// GivenDef is an attribute, and where its value comes from.
type GivenDef struct {
	Name  string
	From  Origin
	Key   string
	Place Place
}

// CalendarDef is the calendar of a limit. Its period is the period of the limit's rates; it
// is 0 while all rates are `unlimited` or `blocked`.
type CalendarDef struct {
	Rules calendar.Rules
	Place Place
	// Anchor is where the text has the anchor of Rules.
	Anchor Place
}

// DescriptorDef is a descriptor of a text.
type DescriptorDef struct {
	Place      Place
	Level      int // 1 at the top
	Key, Value string
	Rate       *RateLimitDef // nil: none
	Shadow     bool
	Quota      bool
	Share      bool
	Detailed   bool
	Valued     bool   // value_to_metric
	Metadata   string // JSON; "" if there is none
	Below      []*DescriptorDef
}

// RateLimitDef is what a descriptor limits.
type RateLimitDef struct {
	Place     Place
	Unlimited bool
	Unit      Unit
	Requests  int64
	Given     bool // Requests is
	Name      string
	Replaces  []string
}

// Composite returns the text by which a level finds a descriptor.
func (d *DescriptorDef) Composite() string {
	if d.Value == "" {
		return d.Key
	}
	return d.Key + "_" + d.Value
}

// Periodless reports whether the limit has a calendar but no rate with a period. Such a
// limit counts nothing.
func (l *LimitDef) Periodless() bool { return l.Calendar != nil && l.Calendar.Rules.Period == 0 }

// Test is the kind of test of a clause.
type Test uint8

const (
	IsAny   Test = iota // one of the values
	IsNone              // present, and none of the values
	Present             // has a value
	Absent              // has none
)
