package diff

import (
	"slices"

	"github.com/headgate-io/headgate/policy"
	"github.com/headgate-io/headgate/policy/grammar"
)

// descriptorFields returns each descriptor as one field, with its path. others are the
// descriptors of the other policy by their paths.
func descriptorFields(defs []*policy.DescriptorDef, path string, others map[string]*policy.DescriptorDef) (fs []grammar.Field) {
	for _, d := range defs {
		at := path + policy.Quote(d.Composite())
		says := slices.DeleteFunc(grammar.DescriptorFields(d), func(f grammar.Field) bool { return f.Key == "key" || f.Key == "value" })
		fs = append(fs, grammar.Field{Key: at, Value: grammar.Inline(says), Effect: descriptorEffect(d, others[at])})
		fs = append(fs, descriptorFields(d.Below, at+".", others)...)
	}
	return fs
}

// descriptors compares the trees of two policies.
func (x *comparison) descriptors(old, new *policy.Definition) {
	before, after := map[string]*policy.DescriptorDef{}, map[string]*policy.DescriptorDef{}
	byPath(old.Descriptors, "", before)
	byPath(new.Descriptors, "", after)
	x.fields("descriptors.", descriptorFields(old.Descriptors, "", after), descriptorFields(new.Descriptors, "", before))
}

// descriptorEffect returns what an edit does to the counters of d. other is the descriptor
// of the same path in the other policy; nil if there is none. Counters depend on the unit,
// and on which values share a counter.
func descriptorEffect(d, other *policy.DescriptorDef) grammar.Effect {
	switch {
	case other == nil || d.Rate == nil || other.Rate == nil:
		return grammar.NoEffect
	case d.Rate.Unit != other.Rate.Unit || d.Share != other.Share:
		return grammar.NewKeys
	case d.Rate.Requests != other.Rate.Requests:
		return grammar.NewNumbers
	}
	return grammar.NoEffect
}

// byPath maps the paths of descriptorFields to descriptors.
func byPath(defs []*policy.DescriptorDef, path string, all map[string]*policy.DescriptorDef) {
	for _, d := range defs {
		at := path + policy.Quote(d.Composite())
		all[at] = d
		byPath(d.Below, at+".", all)
	}
}
