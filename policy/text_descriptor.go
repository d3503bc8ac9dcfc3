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

// descriptors compares the trees of two policies.
func (x *comparison) descriptors(old, new *definition) {
	effect := NewNumbers
	if old.dialect != new.dialect {
		effect = NewKeys
	}
	x.fields("descriptors.", descriptorFields(old.descriptors, ""), descriptorFields(new.descriptors, ""), func(string) Effect { return effect })
}

// limiting returns what decides what counters of descriptors are held against.
func (d *definition) limiting() string {
	var b strings.Builder
	for _, f := range descriptorFields(d.descriptors, "") {
		b.WriteString(f.key + " " + f.value + "\n")
	}
	return b.String()
}
