package policies

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/policy"
	"github.com/headgate-io/headgate/policy/diff"
	"github.com/headgate-io/headgate/policy/grammar"
	"github.com/headgate-io/headgate/resp"
)

// rehearse replies what a change would do, one text per line. If surveys is set, it adds
// which counters would deny a call.
func (e *Editor) rehearse(sess *engine.Session, c *change, w *resp.Writer, surveys bool) error {
	now := e.book.current()
	base, before := now.set, now.revision
	_, edits, _, err := e.recordsOf(c, before)
	if err != nil {
		return err
	}
	if key := keyFor(base, edits); key != nil {
		edits = slices.Insert(edits, 0, bookEdit{name: secretRecord, key: key})
	}
	st, err := e.book.build(base, edits, nil)
	if err != nil {
		return fmt.Errorf("ERR %w", err)
	}
	defer e.book.drop(st)
	var lines, names []string
	for i := range c.edits {
		ed := &c.edits[i]
		old := e.replaced(ed.name, e.book.engine.PolicyRecord(ed.name), c.revision)
		was, _ := old.parsed(ed.name) // a text that cannot be read counts as no text
		for _, d := range diff.Compare(was, ed.record) {
			lines = append(lines, ed.name+": "+d.String())
		}
		if e.book.moves(was, ed.record) {
			lines = append(lines, fmt.Sprintf("%s: home: %s -> %s (all counters begin at zero)", ed.name, homeName(was), homeName(ed.record)))
		}
		lines = append(lines, e.book.warnings(ed.record, st.next.Attributes())...)
		if ed.changed && isPolicy(ed.name) {
			names = append(names, ed.name)
		}
	}
	for _, name := range names {
		if n := st.asleep(name); n > 0 {
			lines = append(lines, fmt.Sprintf("%s: overrides of RL.OVERRIDE that sleep then: %d", name, n))
		}
	}
	lines = append(lines, c.routeWarnings(st.next)...)
	if surveys {
		counted, err := surveyOf(sess, st, names)
		if err != nil {
			return engineError(err)
		}
		lines = append(lines, counted...)
	}
	w.Array(len(lines))
	for _, l := range lines {
		w.BulkString(l)
	}
	return nil
}

// homeName returns the home of a policy in words.
func homeName(rec *policy.Record) string {
	d := rec.Definition
	name := cmp.Or(d.HomeText(), "nothing")
	if len(d.Ceilings()) > 0 {
		name += ", ceilings: " + cmp.Or(d.CeilingText(), "nothing")
	}
	return name
}

// warnings returns the parts of a text that have no effect, one text per line. With several
// groups, it also returns what the text does not say about them.
func (b *Book) warnings(rec, shared *policy.Record) (lines []string) {
	if rec == nil {
		return nil
	}
	all := grammar.Warnings(rec, shared)
	if b.homes.Several() {
		all = append(all, grammar.HomeWarnings(rec)...)
	}
	for _, w := range all {
		lines = append(lines, "warning: "+w.Error())
	}
	return lines
}
