package policy

import (
	"strconv"
	"strings"
)

// dialect writes the descriptors of a policy.
func (w *writer) dialect(defs []*descriptorDef) {
	if len(defs) == 0 {
		w.line("", "descriptors: []")
		return
	}
	w.line("", "descriptors:")
	w.descriptors(defs, "  ")
}

// descriptors writes a level.
func (w *writer) descriptors(defs []*descriptorDef, indent string) {
	for _, d := range defs {
		mark := "- "
		for _, f := range d.fields() {
			w.pair(indent, mark+f.key, f.value)
			mark = "  "
		}
		if len(d.below) > 0 {
			w.line(indent, "  descriptors:")
			w.descriptors(d.below, indent+"    ")
		}
	}
}

// fields returns what the descriptor says, without what is below it.
func (d *descriptorDef) fields() []field {
	fs := []field{{"key", quote(d.key)}}
	if d.value != "" {
		fs = append(fs, field{"value", quote(d.value)})
	}
	if d.rate != nil {
		fs = append(fs, field{"rate_limit", d.rate.String()})
	}
	for _, f := range []struct {
		key  string
		said bool
	}{
		{"shadow_mode", d.shadow}, {"quota_mode", d.quota}, {"share_threshold", d.share}, {"detailed_metric", d.detailed}, {"value_to_metric", d.valued},
	} {
		if f.said {
			fs = append(fs, field{f.key, truths[1]})
		}
	}
	if d.metadata != "" {
		fs = append(fs, field{"metadata", d.metadata})
	}
	return fs
}

// String returns the limit as the dialect has it.
func (l *rateLimitDef) String() string {
	var parts []string
	if l.unlimited {
		parts = append(parts, "unlimited: true")
	} else {
		parts = append(parts, "unit: "+l.unit.String(), "requests_per_unit: "+strconv.FormatInt(l.requests, 10))
	}
	if l.name != "" {
		parts = append(parts, "name: "+quote(l.name))
	}
	if len(l.replaces) > 0 {
		names := make([]string, len(l.replaces))
		for i, name := range l.replaces {
			names[i] = "{name: " + quote(name) + "}"
		}
		parts = append(parts, "replaces: ["+strings.Join(names, ", ")+"]")
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

// descriptorFields returns the descriptors with their paths, each as a field on its own.
func descriptorFields(defs []*descriptorDef, path string) (fs []field) {
	for _, d := range defs {
		at := path + quote(d.composite())
		var parts []string
		for _, f := range d.fields()[1:] {
			if f.key != "value" {
				parts = append(parts, f.key+": "+f.value)
			}
		}
		fs = append(fs, field{at, "{" + strings.Join(parts, ", ") + "}"})
		fs = append(fs, descriptorFields(d.below, at+".")...)
	}
	return fs
}

// descriptors compares the trees of two policies. What an edit does to counters is
// told of limits that are in both: counters go by the unit, and by what shares them.
func (x *comparison) descriptors(old, new *definition) {
	before, after := map[string]*descriptorDef{}, map[string]*descriptorDef{}
	byPath(old.descriptors, "", before)
	byPath(new.descriptors, "", after)
	x.fields("descriptors.", descriptorFields(old.descriptors, ""), descriptorFields(new.descriptors, ""), func(path string) Effect {
		was, is := before[path], after[path]
		switch {
		case was == nil || is == nil || was.rate == nil || is.rate == nil:
			return NoEffect
		case was.rate.unit != is.rate.unit || was.share != is.share:
			return NewKeys
		case was.rate.requests != is.rate.requests:
			return NewNumbers
		}
		return NoEffect
	})
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
