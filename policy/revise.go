package policy

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
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
// their ids; what says the same as before counts on, and so do a limit that comes
// back, and slots of concurrent calls, whatever change says. old is nil for a policy that was not there, new for one that goes.
// The error is of a limit that gets another algorithm or calendar than its counters
// have, without ChangeReset.
func Revise(old *Record, epochs map[string]LimitEpoch, new *Record, change Change) (map[string]LimitEpoch, error) {
	out := copied(epochs)
	before, after := definitionOf(old), definitionOf(new)
	for _, l := range before.limits {
		if after.limitWithID(l.id) == nil && !l.periodless() {
			e := out[l.id]
			e.Was = l.counting()
			out[l.id] = e
		}
	}
	for _, l := range after.limits {
		e := out[l.id]
		counted, edited := e.Was, true
		if was := before.limitWithID(l.id); was != nil {
			edited = was.counts(before) != l.counts(after)
			if was.penalty != nil && l.penalty == nil {
				e.Forgiven++
			}
			if !was.periodless() {
				counted = was.counting()
			}
		}
		e.Was = ""
		switch {
		case counted == "" || !edited:
		case l.Algorithm == Concurrent && l.goesOn(counted): // jobs that hold slots run on
		case change == ChangeReset:
			e.Reset++
			counted = ""
		case !l.goesOn(counted):
			return nil, fmt.Errorf("limit '%s' counts by %s, not %s: that takes CHANGE reset, or another id", l.name, counted, l.counting())
		case change == ChangeProportional:
			e.Proportion++
		}
		if l.periodless() {
			e.Was = counted
		}
		keep(out, l.id, e)
	}
	if after.dialect {
		e := out[descriptorsID]
		if e.Was = ""; before.dialect && before.limiting() != after.limiting() {
			switch change {
			case ChangeReset:
				e.Reset++
			case ChangeProportional:
				e.Proportion++
			}
		}
		keep(out, descriptorsID, e)
	}
	bound(out, after)
	return out, nil
}

// copied returns a copy of epochs, which may be nil.
func copied(epochs map[string]LimitEpoch) map[string]LimitEpoch {
	if epochs == nil {
		return map[string]LimitEpoch{}
	}
	return maps.Clone(epochs)
}

// keep sets the epoch of a limit; the zero one is that of a limit without one.
func keep(epochs map[string]LimitEpoch, id string, e LimitEpoch) {
	if e == (LimitEpoch{}) {
		delete(epochs, id)
	} else {
		epochs[id] = e
	}
}

// ResetAll returns the epochs of a policy whose counters all begin anew, those of
// limits that are gone included. r is nil for a policy that nobody can read.
func ResetAll(r *Record, epochs map[string]LimitEpoch) map[string]LimitEpoch {
	out := copied(epochs)
	for id, e := range out {
		if e.Was != "" {
			out[id] = LimitEpoch{Reset: e.Reset + 1, Proportion: e.Proportion, Forgiven: e.Forgiven}
		}
	}
	d := definitionOf(r)
	for _, l := range d.limits {
		e := out[l.id]
		e.Reset++
		out[l.id] = e
	}
	if d.dialect {
		e := out[descriptorsID]
		e.Reset++
		out[descriptorsID] = e
	}
	bound(out, d)
	return out
}

// bound drops epochs of limits that are gone, while there are too many: first of
// those whose counters no edit has changed.
func bound(epochs map[string]LimitEpoch, d *definition) {
	if len(epochs) <= maxEpochs {
		return
	}
	edited := func(id string) int {
		if e := epochs[id]; e.Reset|e.Proportion|e.Forgiven != 0 {
			return 1
		}
		return 0
	}
	ids := slices.SortedFunc(maps.Keys(epochs), func(a, b string) int {
		return cmp.Or(edited(a)-edited(b), strings.Compare(a, b))
	})
	for _, id := range ids {
		if len(epochs) <= maxEpochs {
			return
		}
		if d.limitWithID(id) == nil && (!d.dialect || id != descriptorsID) {
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
	s := l.counting()
	for _, f := range fieldsOf(limitEntries, l) {
		if f.effect == NewNumbers {
			s += " " + f.value
		}
	}
	for _, o := range d.overrides {
		if slices.ContainsFunc(o.limits, func(x overriddenDef) bool { return x.limit == l.name }) {
			s += " " + o.String()
		}
	}
	return s
}
