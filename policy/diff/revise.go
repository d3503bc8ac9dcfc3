package diff

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/headgate-io/headgate/policy"
	"github.com/headgate-io/headgate/policy/calendar"
	"github.com/headgate-io/headgate/policy/grammar"
)

// Change says what happens to the used units of limits whose numbers an edit changes.
type Change uint8

const (
	// ChangeKeep keeps the used units.
	ChangeKeep Change = iota
	// ChangeProportional keeps the used share of the limit.
	ChangeProportional
	// ChangeReset starts again from 0.
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

// maxEpochs bounds the limits whose epochs a policy keeps, including deleted limits. If a
// deleted limit beyond that bound returns, its counters begin at zero.
const maxEpochs = 8 * policy.MaxLimits

// Revise returns the epochs of a policy's limits after an edit. It matches limits by id.
// With every value of change, three kinds of counters continue: the counters of an
// unchanged limit, the counters of a limit that returns, and slots of concurrent calls.
// old is nil for a new policy, and new is nil for a deleted policy. Without ChangeReset,
// Revise returns an error for a limit whose algorithm or calendar has changed.
func Revise(old *policy.Record, epochs map[string]policy.LimitEpoch, new *policy.Record, change Change) (map[string]policy.LimitEpoch, error) {
	out := copied(epochs)
	before, after := definitionOf(old), definitionOf(new)
	for _, l := range before.Limits {
		if after.LimitWithID(l.ID) == nil && !l.Periodless() {
			e := out[l.ID]
			e.Was = counting(l)
			out[l.ID] = e
		}
	}
	for _, l := range after.Limits {
		e := out[l.ID]
		counted, edited := e.Was, true
		if was := before.LimitWithID(l.ID); was != nil {
			edited = heldAgainst(was, before) != heldAgainst(l, after)
			if was.Penalty != nil && l.Penalty == nil {
				e.Forgiven++
			}
			if !was.Periodless() {
				counted = counting(was)
			}
		}
		e.Was = ""
		switch {
		case counted == "" || !edited:
		case l.Algorithm == policy.Concurrent && goesOn(l, counted): // jobs that hold slots keep running
		case change == ChangeReset:
			e.Reset++
			counted = ""
		case !goesOn(l, counted):
			return nil, fmt.Errorf("limit '%s' counts by %s, not %s: use CHANGE reset, or another id", l.Name, counted, counting(l))
		case change == ChangeProportional:
			e.Proportion++
		}
		if l.Periodless() {
			e.Was = counted
		}
		keep(out, l.ID, e)
	}
	if after.Dialect {
		e := out[policy.DescriptorsID]
		if e.Was = ""; before.Dialect && limiting(before) != limiting(after) {
			switch change {
			case ChangeReset:
				e.Reset++
			case ChangeProportional:
				e.Proportion++
			}
		}
		keep(out, policy.DescriptorsID, e)
	}
	bound(out, after)
	return out, nil
}

// copied returns a copy of epochs, which may be nil.
func copied(epochs map[string]policy.LimitEpoch) map[string]policy.LimitEpoch {
	if epochs == nil {
		return map[string]policy.LimitEpoch{}
	}
	return maps.Clone(epochs)
}

// keep sets the epoch of a limit. The zero epoch is removed.
func keep(epochs map[string]policy.LimitEpoch, id string, e policy.LimitEpoch) {
	if e == (policy.LimitEpoch{}) {
		delete(epochs, id)
	} else {
		epochs[id] = e
	}
}

// ResetAll returns the epochs of a policy whose counters all begin at zero, including the
// counters of deleted limits. r is nil for a policy that cannot be read.
func ResetAll(r *policy.Record, epochs map[string]policy.LimitEpoch) map[string]policy.LimitEpoch {
	out := copied(epochs)
	for id, e := range out {
		if e.Was != "" {
			out[id] = policy.LimitEpoch{Reset: e.Reset + 1, Proportion: e.Proportion, Forgiven: e.Forgiven}
		}
	}
	d := definitionOf(r)
	for _, l := range d.Limits {
		e := out[l.ID]
		e.Reset++
		out[l.ID] = e
	}
	if d.Dialect {
		e := out[policy.DescriptorsID]
		e.Reset++
		out[policy.DescriptorsID] = e
	}
	bound(out, d)
	return out
}

// bound drops epochs of deleted limits while there are too many. It first drops those
// whose counters no edit has changed.
func bound(epochs map[string]policy.LimitEpoch, d *policy.Definition) {
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
		if d.LimitWithID(id) == nil && (!d.Dialect || id != policy.DescriptorsID) {
			delete(epochs, id)
		}
	}
}

// heldAgainst returns the values that decide with what a limit's counters are compared.
func heldAgainst(l *policy.LimitDef, d *policy.Definition) string {
	s := counting(l)
	for _, f := range grammar.LimitFields(l) {
		if f.Effect == grammar.NewNumbers {
			s += " " + f.Value
		}
	}
	for _, o := range d.Overrides {
		if slices.ContainsFunc(o.Limits, func(x policy.OverriddenDef) bool { return x.Limit == l.Name }) {
			s += " " + grammar.OverrideText(o)
		}
	}
	return s
}

// counting returns in words how the limit counts. Counters that count differently are not
// carried over.
func counting(l *policy.LimitDef) string {
	if l.Calendar == nil {
		return l.Algorithm.String()
	}
	if l.Periodless() {
		return countingIn(l, "period")
	}
	return countingIn(l, l.Calendar.Rules.Period.String())
}

// goesOn reports whether the limit can continue counters that counted in the way that
// `counted` says. It can if it counts in the same way. If the limit has no period now, it
// can if the calendar is the same, with any period.
func goesOn(l *policy.LimitDef, counted string) bool {
	if !l.Periodless() {
		return counted == counting(l)
	}
	for p := calendar.Day; p <= calendar.Year; p++ {
		if counted == countingIn(l, p.String()) {
			return true
		}
	}
	return false
}

// countingIn is counting for a limit with a calendar, in windows of a period.
func countingIn(l *policy.LimitDef, period string) string {
	r := l.Calendar.Rules
	s := "the " + period + " of " + r.Zone
	if anchor := r.AnchorText(); anchor != "" {
		s += " from " + anchor
	}
	if at := r.AtText(); at != "" {
		s += " at " + at
	}
	return s
}

// limiting returns the values that decide with what counters of descriptors are compared.
func limiting(d *policy.Definition) string {
	var b strings.Builder
	var walk func(defs []*policy.DescriptorDef, path string)
	walk = func(defs []*policy.DescriptorDef, path string) {
		for _, x := range defs {
			at := path + policy.Quote(x.Composite())
			if l := x.Rate; l != nil && !l.Unlimited {
				b.WriteString(at + " " + strconv.FormatInt(l.Requests, 10) + "/" + l.Unit.String() + "\n")
			}
			walk(x.Below, at+".")
		}
	}
	walk(d.Descriptors, "")
	return b.String()
}
