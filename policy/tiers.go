package policy

import "slices"

// Tiers returns the names of the limit's tiers, in the order of the text; nil if there is none.
// They must not be changed.
func (l *Limit) Tiers() []string {
	if l.tiers == nil {
		return nil
	}
	return l.tiers.names
}

// tiers are the numbers of a limit's tiers, chosen by the value of an attribute.
type tiers struct {
	*tierNames
	numbers []Numbers // in the order of the names
	attr    int8
}

// tierNames are names of tiers. Limits with the same names share them.
type tierNames struct {
	names []string       // the last is the default
	many  map[string]int // nil: names are few
}

func newTierNames(names []string) *tierNames {
	t := &tierNames{names: names}
	if len(names) > fewValues {
		t.many = make(map[string]int, len(names))
		for i, name := range names {
			t.many[name] = i
		}
	}
	return t
}

// index returns the tier of a call.
func (t *tiers) index(c *Call) int {
	last := len(t.names) - 1
	if c.present&(1<<uint(t.attr)) == 0 {
		return last
	}
	value := c.values[t.attr]
	if t.many != nil {
		if i, ok := t.many[string(value)]; ok {
			return i
		}
		return last
	}
	for i := range t.names[:last] {
		if t.names[i] == string(value) {
			return i
		}
	}
	return last
}

// named returns the index of a tier, or -1.
func (t *tiers) named(name string) int { return slices.Index(t.names, name) }
