package policy

import (
	"slices"
	"strconv"
	"strings"
)

// descriptors writes a level.
func (w *writer) descriptors(indent string, defs []*descriptorDef) {
	if len(defs) == 0 {
		w.line(indent, "descriptors: []")
		return
	}
	w.line(indent, "descriptors:")
	for _, d := range defs {
		w.item(indent+"  ", func(w *writer, indent string) { writeMap(w, indent, descriptorEntries, d) })
	}
}

// String returns the limit as the dialect has it, "" for none.
func (l *rateLimitDef) String() string {
	if l == nil {
		return ""
	}
	return inline(fieldsOf(rateLimitEntries, l))
}

func replacesText(names []string) string {
	texts := make([]string, len(names))
	for i, name := range names {
		texts[i] = inline(fieldsOf(replacedEntries, &replacedDef{name}))
	}
	return said(len(names) > 0, "["+strings.Join(texts, ", ")+"]")
}

// descriptorFields returns the descriptors with their paths, each as a field on its own.
// others are the descriptors of the other policy by their paths.
func descriptorFields(defs []*descriptorDef, path string, others map[string]*descriptorDef) (fs []field) {
	for _, d := range defs {
		at := path + quote(d.composite())
		says := slices.DeleteFunc(fieldsOf(descriptorEntries, d), func(f field) bool { return f.key == "key" || f.key == "value" })
		fs = append(fs, field{at, inline(says), d.effect(others[at])})
		fs = append(fs, descriptorFields(d.below, at+".", others)...)
	}
	return fs
}

// descriptors compares the trees of two policies.
func (x *comparison) descriptors(old, new *definition) {
	before, after := map[string]*descriptorDef{}, map[string]*descriptorDef{}
	byPath(old.descriptors, "", before)
	byPath(new.descriptors, "", after)
	x.fields("descriptors.", descriptorFields(old.descriptors, "", after), descriptorFields(new.descriptors, "", before))
}

// effect returns what an edit from or to another descriptor of the same path, nil for
// none, does to counters. They go by the unit, and by what shares them.
func (d *descriptorDef) effect(other *descriptorDef) Effect {
	switch {
	case other == nil || d.rate == nil || other.rate == nil:
		return NoEffect
	case d.rate.unit != other.rate.unit || d.share != other.share:
		return NewKeys
	case d.rate.requests != other.rate.requests:
		return NewNumbers
	}
	return NoEffect
}

// byPath finds descriptors by the paths of descriptorFields.
func byPath(defs []*descriptorDef, path string, all map[string]*descriptorDef) {
	for _, d := range defs {
		at := path + quote(d.composite())
		all[at] = d
		byPath(d.below, at+".", all)
	}
}

// limiting returns what decides what counters of descriptors are held against.
func (d *definition) limiting() string {
	var b strings.Builder
	var walk func(defs []*descriptorDef, path string)
	walk = func(defs []*descriptorDef, path string) {
		for _, x := range defs {
			at := path + quote(x.composite())
			if l := x.rate; l != nil && !l.unlimited {
				b.WriteString(at + " " + strconv.FormatInt(l.requests, 10) + "/" + l.unit.String() + "\n")
			}
			walk(x.below, at+".")
		}
	}
	walk(d.descriptors, "")
	return b.String()
}
