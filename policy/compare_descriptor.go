package policy

import "slices"

// descriptorFields returns the descriptors with their paths, each as a field on its own.
// others are the descriptors of the other policy by their paths.
func descriptorFields(defs []*DescriptorDef, path string, others map[string]*DescriptorDef) (fs []Field) {
	for _, d := range defs {
		at := path + Quote(d.Composite())
		says := slices.DeleteFunc(DescriptorFields(d), func(f Field) bool { return f.Key == "key" || f.Key == "value" })
		fs = append(fs, Field{at, Inline(says), descriptorEffect(d, others[at])})
		fs = append(fs, descriptorFields(d.Below, at+".", others)...)
	}
	return fs
}

// descriptors compares the trees of two policies.
func (x *comparison) descriptors(old, new *Definition) {
	before, after := map[string]*DescriptorDef{}, map[string]*DescriptorDef{}
	byPath(old.Descriptors, "", before)
	byPath(new.Descriptors, "", after)
	x.fields("descriptors.", descriptorFields(old.Descriptors, "", after), descriptorFields(new.Descriptors, "", before))
}

// descriptorEffect returns what an edit from or to another descriptor of the same path, nil for
// none, does to counters. They go by the unit, and by what shares them.
func descriptorEffect(d, other *DescriptorDef) Effect {
	switch {
	case other == nil || d.Rate == nil || other.Rate == nil:
		return NoEffect
	case d.Rate.Unit != other.Rate.Unit || d.Share != other.Share:
		return NewKeys
	case d.Rate.Requests != other.Rate.Requests:
		return NewNumbers
	}
	return NoEffect
}

// byPath finds descriptors by the paths of descriptorFields.
func byPath(defs []*DescriptorDef, path string, all map[string]*DescriptorDef) {
	for _, d := range defs {
		at := path + Quote(d.Composite())
		all[at] = d
		byPath(d.Below, at+".", all)
	}
}
