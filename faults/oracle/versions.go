package oracle

import (
	"fmt"
	"slices"

	"github.com/headgate-io/headgate/faults/history"
)

// keptVersions is how many versions HISTORY has: the present one and 20 before.
const keptVersions = 21

// untilSlack is how far the clock of the limits may be from the runner's where an
// override ends, in ns, as long as it does not go back. The two clocks differ: the
// limits' began when the cluster was founded.
const untilSlack = 250_000_000

// Versions checks the versions of policies. Each version is made once, by one edit, and
// follows the one that the edit was for. What was read of them, and what HISTORY has in
// the end, is what was made. Every answer names a version that was in force while the
// call was under way. It also names an amount of that version, or of an override that was
// in force. back is how far the clock of the limits may go back, in ns.
func Versions(h *history.History, back int64) Finding {
	f := Finding{Check: "versions", OK: true}
	made := newEdits(h)
	made.slack = untilSlack + back
	acknowledged, seen := 0, 0
	for i := range h.Policies {
		name := h.Policies[i].Name
		acknowledged += made.numbered(&f, h, name)
		made.kept(&f, h, name)
	}
	for i := range h.Seen {
		s := &h.Seen[i]
		seen++
		if e := made.version(s.Policy, s.Version); e == nil || e.Text != s.Text {
			f.violate("%s: version %d was read with a text that no edit has made it: %q", s.Policy, s.Version, s.Text)
		}
	}
	checks := 0
	for i := range h.Calls {
		if c := &h.Calls[i]; c.Kind == history.Check && c.Decided() {
			checks++
			made.named(&f, h, c)
		}
	}
	f.Text = fmt.Sprintf("%d versions of %d policies, %d acknowledged; %d checks name one that was in force", made.count, len(h.Policies), acknowledged, checks)
	if seen > 0 {
		f.Text += fmt.Sprintf("; %d were read", seen)
	}
	return f
}

// edits are the edits of a history, by what they are about.
type edits struct {
	versions map[string][]*history.Edit // by policy: those that were made, by version from 1; nil where none is known
	resets   map[string][]*history.Edit // by policy: those that may have been made
	users    map[string][]*history.Edit // of overrides that may have been made, by policy and user
	count    int
	slack    int64 // of the time when an override ends
}

func newEdits(h *history.History) *edits {
	m := &edits{make(map[string][]*history.Edit), make(map[string][]*history.Edit), make(map[string][]*history.Edit), 0, untilSlack}
	for i := range h.Edits {
		e := &h.Edits[i]
		if e.Outcome == history.Refused {
			continue
		}
		if e.Resets {
			m.resets[e.Policy] = append(m.resets[e.Policy], e)
		}
		if e.Kind == history.Forget {
			continue
		}
		if !e.Kind.OfVersion() {
			m.users[e.Policy+" "+e.User] = append(m.users[e.Policy+" "+e.User], e)
			continue
		}
		if e.Outcome != history.Admitted || e.Version == 0 {
			continue
		}
		vs := m.versions[e.Policy]
		for uint64(len(vs)) < e.Version {
			vs = append(vs, nil)
		}
		if vs[e.Version-1] == nil {
			vs[e.Version-1] = e
			m.count++
		}
		m.versions[e.Policy] = vs
	}
	return m
}

// version is the edit that has made a version, or nil.
func (m *edits) version(policy string, v uint64) *history.Edit {
	if vs := m.versions[policy]; v >= 1 && v <= uint64(len(vs)) {
		return vs[v-1]
	}
	return nil
}

// numbered checks the numbers of a policy's versions. It returns how many were
// acknowledged.
func (m *edits) numbered(f *Finding, h *history.History, policy string) (acknowledged int) {
	for v, e := range m.versions[policy] {
		if e == nil {
			f.violate("%s: no edit has made version %d", policy, v+1)
		}
	}
	last := uint64(0) // that was acknowledged
	for i := range h.Edits {
		e := &h.Edits[i]
		if e.Policy != policy || !e.Kind.OfVersion() || e.Outcome != history.Admitted {
			continue
		}
		if other := m.version(policy, e.Version); other != e {
			f.violate("%s: two edits have made version %d", policy, e.Version)
		}
		if e.Version != e.Base+1 {
			f.violate("%s: an edit of version %d has made version %d", policy, e.Base, e.Version)
		}
		if !e.Acknowledged {
			continue
		}
		acknowledged++
		if e.Version <= last {
			f.violate("%s: version %d was acknowledged after version %d", policy, e.Version, last)
		}
		last = e.Version
	}
	return acknowledged
}

// kept checks what HISTORY has in the end.
func (m *edits) kept(f *Finding, h *history.History, policy string) {
	var kept []history.Sight
	for _, s := range h.Kept {
		if s.Policy == policy {
			kept = append(kept, s)
		}
	}
	if h.Kept == nil {
		return // the run broke off
	}
	last := uint64(len(m.versions[policy]))
	if want := min(last, keptVersions); uint64(len(kept)) != want {
		f.violate("%s: HISTORY has %d versions, of %d that were made", policy, len(kept), last)
	}
	for i, s := range kept {
		e := m.version(policy, s.Version)
		switch {
		case s.Version != last-uint64(i):
			f.violate("%s: HISTORY has version %d where %d was due", policy, s.Version, last-uint64(i))
		case e == nil || e.Text != s.Text:
			f.violate("%s: HISTORY has another text for version %d than was made", policy, s.Version)
		}
	}
}

// named checks the version, and the amount, that an answer names.
func (m *edits) named(f *Finding, h *history.History, c *history.Call) {
	who := h.Keys[c.Key].Caller
	e := m.version(who.Policy, uint64(c.Version))
	if e == nil {
		f.violate("%s: an answer at %.3f s names version %d, which nobody has made", who.Policy, seconds(c.End), c.Version)
		return
	}
	if e.Start > c.End {
		f.violate("%s: an answer at %.3f s names version %d, which was begun at %.3f s", who.Policy, seconds(c.End), c.Version, seconds(e.Start))
	}
	if next := m.version(who.Policy, uint64(c.Version)+1); next != nil && next.End < c.Start {
		f.violate("%s: a call of %.3f s was answered by version %d, when the next one had been made at %.3f s",
			who.Policy, seconds(c.Start), c.Version, seconds(next.End))
	}
	if amounts := m.amounts(e, who, int(c.Binding)-1, c); !slices.Contains(amounts, c.Limit) {
		f.violate("%s: an answer to %s at %.3f s names %d as limit %d of version %d, which is one of %d",
			who.Policy, who.User, seconds(c.End), c.Limit, c.Binding, c.Version, amounts)
	}
}

// amounts are those that a limit may have had for a caller during a call, by a
// version and by overrides.
func (m *edits) amounts(version *history.Edit, who *history.Caller, limit int, c *history.Call) []int32 {
	base := version.Amounts[limit]
	overrides := m.users[who.Policy+" "+who.User]
	if limit != 0 || len(overrides) == 0 {
		return []int32{base}
	}
	var out []int32
	may := func(e *history.Edit) {
		if e == nil || e.Kind == history.DeleteOverride {
			out = append(out, base)
			return
		}
		if e.Until == 0 || e.Until+m.slack >= c.Start {
			out = append(out, e.Amounts[0])
		}
		if e.Until != 0 && e.Until-m.slack <= c.End {
			out = append(out, base)
		}
	}
	var settled *history.Edit // the last one that was certainly made before the call
	for _, e := range overrides {
		if e.Outcome == history.Admitted && e.End <= c.Start {
			settled = e
		}
	}
	may(settled)
	for _, e := range overrides {
		if e.Start <= c.End && (e.Outcome == history.Unknown || e.End > c.Start) {
			may(e)
		}
	}
	return out
}

func seconds(ns int64) float64 { return float64(ns) / 1e9 }
