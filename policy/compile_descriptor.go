package policy

import "strings"

// DescriptorsID is the id of the counters of all descriptors of a policy.
const DescriptorsID = "descriptors"

// descriptors compiles the tree of a policy that has one.
func (x *compiler) descriptors() {
	p := x.p
	d := &Descriptors{limit: Limit{
		Policy: p, Name: DescriptorsID, ID: DescriptorsID, Terms: Terms{Algorithm: Fixed, CountAll: true}, Epoch: p.Epochs[DescriptorsID],
	}}
	p.descriptors, p.guarded = d, true // see Call.admit
	t := &descriptorCompiler{compiler: x, d: d, names: map[string]int{}, numbers: map[Rate]*Numbers{}}
	t.number(x.def.Descriptors)
	t.level(&d.top, x.def.Descriptors, nil, nil)
}

// descriptorCompiler makes a tree.
type descriptorCompiler struct {
	*compiler
	d       *Descriptors
	names   map[string]int    // of rules, to their numbers
	numbers map[Rate]*Numbers // rules of one rate share them
}

// number gives the names of rules their numbers.
func (t *descriptorCompiler) number(defs []*DescriptorDef) {
	for _, def := range defs {
		if l := def.Rate; l != nil && l.Name != "" {
			if _, known := t.names[l.Name]; !known {
				t.names[l.Name] = len(t.d.names)
				t.d.names = append(t.d.names, l.Name)
			}
		}
		t.number(def.Below)
	}
}

// level compiles the levels below a level. path holds the composites from the root to that
// level. valued says which of them show their values in metrics.
func (t *descriptorCompiler) level(l *level, defs []*DescriptorDef, path []string, valued []bool) {
	if len(defs) > 0 {
		l.named = make(map[string]*level, len(defs))
	}
	for _, def := range defs {
		name := def.Composite()
		below := &level{key: def.Key, value: def.Value, share: def.Share}
		down := append(path[:len(path):len(path)], name)
		values := append(valued[:len(valued):len(valued)], def.Valued)
		if def.Rate != nil {
			below.rule = t.rule(def, down, values)
		}
		t.level(below, def.Below, down, values)
		l.named[name] = below
		if p, star := starPattern(name); star {
			l.wild = append(l.wild, wildcard{p, below})
		}
	}
}

// starPattern splits a composite at its stars. Unlike in conditions, a backslash has no
// meaning. Several stars in a row count as one.
func starPattern(s string) (pattern, bool) {
	pieces := strings.Split(s, "*")
	last := len(pieces) - 1
	var p pattern
	for i, piece := range pieces {
		if i == 0 || i == last || piece != "" {
			p.pieces = append(p.pieces, piece)
		}
	}
	return p, last > 0
}

// rule compiles the limit of a descriptor.
func (t *descriptorCompiler) rule(def *DescriptorDef, path []string, valued []bool) *Rule {
	l := def.Rate
	r := &Rule{
		Path: strings.Join(path, "."), Levels: path, Index: len(t.d.rules), Requests: l.Requests, Unit: l.Unit, Unlimited: l.Unlimited, Shadow: def.Shadow, Quota: def.Quota,
		Name: l.Name, Detailed: def.Detailed, Valued: valued, Metadata: def.Metadata, name: -1,
	}
	if l.Name != "" {
		r.name = t.names[l.Name]
	}
	for _, name := range l.Replaces {
		if n, known := t.names[name]; known {
			r.replaces = append(r.replaces, n)
		}
	}
	t.d.rules = append(t.d.rules, r)
	if !l.Unlimited {
		r.numbers = t.numbersOf(windowRate(l.Requests, l.Unit, 1))
	}
	return r
}

// numbersOf returns numbers of a rate.
func (t *descriptorCompiler) numbersOf(rate Rate) *Numbers {
	n := t.numbers[rate]
	if n == nil {
		n = t.keep(Numbers{Rate: rate, CostBy: NoAttribute, Cost: 1})
		t.numbers[rate] = n
	}
	return n
}

// windowRate returns the rate of a counter. It counts even with 0 requests, so that a
// call of 0 hits differs from others.
func windowRate(requests int64, unit Unit, multiplier int64) Rate {
	period, _ := unit.Period(multiplier)
	return Rate{Amount: max(requests, 1), Period: period}
}

// countRules returns how many limits some descriptors have.
func countRules(defs []*DescriptorDef) (n int) {
	for _, d := range defs {
		if d.Rate != nil {
			n++
		}
		n += countRules(d.Below)
	}
	return n
}
