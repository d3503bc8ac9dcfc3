package policy

import (
	"fmt"
	"slices"
)

// Finding is what Explain says about one limit.
type Finding struct {
	Limit *Limit
	Why   Why
	// For WhyMissing, Attribute is the missing attribute. For WhyWhen, Attribute is the
	// attribute that does not match, and Expected is what the limit requires.
	Attribute, Expected string
	// Numbers are the numbers in effect; nil if they were not needed. Source and From say
	// where the numbers come from. From is the tier's name, or `overrides[2]`.
	Numbers *Numbers
	Source  Source
	From    string
	// Key and Hash are the counter's key and its hash, if there is a counter. Cost is what
	// the call costs at this limit.
	Key     []byte
	Hash    uint64
	Cost    int64
	Missing bool
	// Err is set if Match would fail at this limit.
	Err error
}

// Explain says for every limit of the policy whether it applies to the call at the time
// now, and why. It ignores deny and allow. Its result is valid as long as the set. The keys
// of an earlier Match become invalid.
func (c *Call) Explain(now int64) []Finding {
	p := c.policy
	c.keys, c.tailed, c.Applied = c.keys[:0], 0, c.slots[:0]
	findings := make([]Finding, len(p.Limits))
	for i := range p.Limits {
		l, f, a := &p.Limits[i], &findings[i], new(Applied)
		f.Limit = l
		f.Why, f.Err = c.consider(l, a, now)
		f.Source, f.Cost, f.Missing = a.Source, a.Cost, a.Missing
		if a.Numbers != nil {
			own := *a.Numbers // the next call reuses the call's memory
			f.Numbers = &own
		}
		switch f.Why {
		case WhyWhen:
			f.Numbers = nil
			k := l.when.fails(c)
			f.Attribute = p.attrs.names[k.attr]
			f.Expected = p.Record.Definition.Limits[i].When.expected(f.Attribute)
		case WhyMissing:
			f.Attribute = p.attrs.names[c.absent]
		case Applies:
			if a.Missing {
				f.Attribute = p.attrs.names[c.absent]
			} else {
				f.Key, f.Hash = slices.Clone(a.Key), a.Hash
			}
		}
		if f.Numbers == nil {
			continue
		}
		switch f.Source.Kind {
		case FromTier, FromTierRecord:
			f.From = l.tiers.names[f.Source.Index]
		case FromOverride:
			f.From = fmt.Sprintf("overrides[%d]", f.Source.Index)
		}
	}
	return findings
}

// String returns the finding in words.
func (f *Finding) String() string {
	switch f.Why {
	case WhyWhen:
		return fmt.Sprintf("does not apply: %s is not %s", f.Attribute, f.Expected)
	case WhyMissing:
		return fmt.Sprintf("does not apply: attribute %s is missing", f.Attribute)
	case WhyShare:
		return "does not apply: the caller is not in its share"
	case WhyUnlimited:
		return "does not apply: unlimited"
	case WhyOff:
		return "does not apply: off"
	}
	if f.Missing {
		return fmt.Sprintf("denies: attribute %s is missing", f.Attribute)
	}
	return "applies"
}
