package policy

import (
	"fmt"
	"maps"
	"slices"
)

// Change says what becomes of what was consumed, of limits that an edit gives
// other numbers.
type Change uint8

const (
	// ChangeKeep keeps consumed units.
	ChangeKeep Change = iota
	// ChangeProportional keeps the share of the limit that was consumed.
	ChangeProportional
	// ChangeReset begins anew.
	ChangeReset
)

var changes = [...]string{"keep", "proportional", "reset"}

// String returns the word of CHANGE.
func (c Change) String() string { return changes[c] }

// ParseChange reads a word of CHANGE.
func ParseChange(s string) (Change, bool) {
	i := slices.Index(changes[:], s)
	return Change(max(i, 0)), i >= 0
}

// maxEpochs is of how many limits a policy keeps epochs, those that are gone
// included. A limit that comes back beyond that begins anew.
const maxEpochs = 8 * MaxLimits

// Revise returns the epochs of a policy's limits after an edit. Limits go by
// their ids; what says the same as before counts on, and so does a limit that
// comes back. old is nil for a policy that was not there. The error is of a
// limit that gets another algorithm without ChangeReset.
func Revise(old *Record, epochs map[string]LimitEpoch, new *Record, change Change) (map[string]LimitEpoch, error) {
	out := maps.Clone(epochs)
	if out == nil {
		out = map[string]LimitEpoch{}
	}
	before := definitionOf(old)
	for _, l := range new.definition.limits {
		was := before.limitWithID(l.id)
		if was == nil || was.counts(before) == l.counts(new.definition) {
			continue
		}
		if was.algorithm != l.algorithm && change != ChangeReset {
			return nil, fmt.Errorf("limit '%s' counts by %s, not %s: that takes CHANGE reset, or another id", l.name, was.algorithm, l.algorithm)
		}
		e := out[l.id]
		switch change {
		case ChangeReset:
			e.Reset++
		case ChangeProportional:
			e.Proportion++
		}
		if e != (LimitEpoch{}) {
			out[l.id] = e
		}
	}
	bound(out, new.definition)
	return out, nil
}

// ResetAll returns the epochs of a policy whose counters all begin anew.
func ResetAll(r *Record, epochs map[string]LimitEpoch) map[string]LimitEpoch {
	out := maps.Clone(epochs)
	if out == nil {
		out = map[string]LimitEpoch{}
	}
	for _, l := range r.definition.limits {
		e := out[l.id]
		e.Reset++
		out[l.id] = e
	}
	bound(out, r.definition)
	return out
}

// bound drops epochs of limits that are gone, while there are too many.
func bound(epochs map[string]LimitEpoch, d *definition) {
	for _, id := range slices.Sorted(maps.Keys(epochs)) {
		if len(epochs) <= maxEpochs {
			return
		}
		if d.limitWithID(id) == nil {
			delete(epochs, id)
		}
	}
}

// limitWithID returns the limit of an id, or nil.
func (d *definition) limitWithID(id string) *limitDef {
	for _, l := range d.limits {
		if l.id == id {
			return l
		}
	}
	return nil
}

// counts returns what decides what a limit's counters are held against.
func (l *limitDef) counts(d *definition) string {
	s := l.algorithm.String() + " " + l.align.String() + " "
	if l.tiers != nil {
		s += l.tiers.String()
	} else {
		s += l.rate.String()
	}
	for _, o := range d.overrides {
		for i := range o.limits {
			if o.limits[i].limit == l.name {
				s += " " + o.String()
			}
		}
	}
	return s
}
