package limits

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/policy"
)

// apply takes over changes of records; anew tells that there are no others. mu
// must be held.
func (b *Book) apply(news []engine.PolicyRecord, anew bool) {
	old := b.set.Load()
	base := old
	if anew {
		clear(b.records)
		clear(b.broken)
		base = b.empty()
	}
	var edits []bookEdit
	for _, r := range news {
		was := b.records[r.Name]
		if r.Value == nil {
			delete(b.records, r.Name)
		} else {
			b.records[r.Name] = r.Value
		}
		delete(b.broken, r.Name)
		if e, ok := b.editOf(r, was); ok {
			edits = append(edits, e)
		}
	}
	// What policies share comes first.
	slices.SortStableFunc(edits, func(x, y bookEdit) int { return cmp.Compare(x.rank(), y.rank()) })
	if next := b.make(base, edits); next != old {
		b.replace(old, next, edits, anew)
	}
}

// empty returns a set without policies.
func (b *Book) empty() *policy.Set { return policy.NewSet(policy.Config{Seed: b.engine.Seed()}) }

// bookEdit is what a record makes of the set: of a policy or what policies share
// the record, nil if it is gone; or an override, with gone if that is.
type bookEdit struct {
	name     string
	record   *policy.Record
	meta     policy.Meta
	override *policy.Override
	gone     bool
}

func (e *bookEdit) rank() int {
	switch {
	case e.override != nil:
		return 2
	case e.record == nil || e.record.Kind == policy.PolicyRecord:
		return 1
	}
	return 0
}

// policy is the name of the policy that the edit is about; shared tells that it may
// be about all.
func (e *bookEdit) policy() (name string, shared bool) {
	if e.override != nil {
		return e.override.Policy, false
	}
	return e.name, isShared(e.name)
}

// editOf returns what a record makes of the set; was is what it was before.
func (b *Book) editOf(r engine.PolicyRecord, was []byte) (e bookEdit, ok bool) {
	e.name = r.Name
	switch {
	case strings.HasPrefix(r.Name, overridePrefix):
		value := r.Value
		if e.gone = value == nil; e.gone {
			value = was
		}
		o, err := policy.DecodeOverride(value)
		if err != nil {
			b.breaks(r.Name, err)
			return e, false
		}
		e.override = &o
	case strings.HasPrefix(r.Name, internalPrefix):
		return e, false
	default:
		st, err := decodeStored(r.Value)
		if err == nil && !st.Gone {
			e.meta = st.meta()
			e.record, err = b.read(r.Name, st.Text)
		}
		if err != nil { // what it was before must not go on
			b.breaks(r.Name, err)
		}
	}
	return e, true
}

// breaks notes a record that this node cannot use.
func (b *Book) breaks(name string, err error) {
	b.broken[name] = err
	b.log.Error("a policy is not understood by this node", "policy", name, "error", err)
}

// make returns the set that edits make of another one. What is committed was tried
// before, so it fits; should an edit be impossible here all the same, the others
// are made without it. mu must be held.
func (b *Book) make(base *policy.Set, edits []bookEdit) *policy.Set {
	if len(edits) == 0 {
		return base
	}
	editor := base.Edit()
	for _, e := range edits {
		switch {
		case e.override != nil && e.gone:
			editor.DeleteOverride(*e.override)
		case e.override != nil:
			editor.SetOverride(*e.override)
		case e.record == nil:
			editor.Delete(e.name)
		default:
			editor.Set(e.record, e.meta)
		}
	}
	next, err := editor.Finish(b.edits + 1)
	switch {
	case err != nil && len(edits) == 1:
		b.breaks(edits[0].name, err)
		return base
	case err != nil:
		half := len(edits) / 2
		return b.make(b.make(base, edits[:half]), edits[half:])
	}
	b.edits++
	return next
}

// replace puts a set in the place of the one before. mu must be held.
func (b *Book) replace(old, next *policy.Set, edits []bookEdit, all bool) {
	var names []string
	for i := range edits {
		name, shared := edits[i].policy()
		names = append(names, name)
		all = all || shared
	}
	if all {
		names = slices.Concat(old.Names(), next.Names())
	}
	slices.Sort(names)
	names = slices.Compact(names)
	changed := func(fn func(was, is *policy.Policy)) {
		for _, name := range names {
			was, is := old.Policy([]byte(name)), next.Policy([]byte(name))
			if was != is {
				fn(was, is)
			}
		}
	}
	changed(func(_, is *policy.Policy) {
		if is == nil {
			return
		}
		if err := b.prepare(is); err != nil {
			b.breaks(is.Name, err)
		}
	})
	b.set.Store(next)
	// Checks that have read the old set finish with it: see engine.Ready.
	changed(func(was, _ *policy.Policy) {
		if was != nil {
			b.release(was)
		}
	})
}

// read returns the checked tree of a text, which has mostly been read already.
func (b *Book) read(name, text string) (*policy.Record, error) {
	b.readyMu.Lock()
	r, ok := b.ready[name]
	delete(b.ready, name)
	b.readyMu.Unlock()
	if ok && r.text == text {
		return r.record, nil
	}
	return policy.ParseRecord(name, name, []byte(text))
}

// keepRead keeps the checked tree of a text that is about to be committed.
func (b *Book) keepRead(name, text string, rec *policy.Record) {
	b.readyMu.Lock()
	defer b.readyMu.Unlock()
	if len(b.ready) >= maxReady {
		clear(b.ready)
	}
	b.ready[name] = readText{text, rec}
}

// prepare interns all limits of a policy.
func (b *Book) prepare(p *policy.Policy) (err error) {
	for l, n := range p.AllNumbers() {
		r, wrong := b.engine.Ready(engineLimit(l, n))
		if wrong != nil {
			err = fmt.Errorf("policy %s, limit %s: %w", p.Name, l.Name, wrong)
			continue
		}
		n.Handle = r
	}
	return err
}

// release gives back what prepare has taken.
func (b *Book) release(p *policy.Policy) {
	for _, n := range p.AllNumbers() {
		if r, ok := n.Handle.(engine.Ready); ok {
			b.engine.Release(r)
		}
	}
}

// engineLimit is a limit of a policy, with some of its numbers, as the engine has
// it.
func engineLimit(l *policy.Limit, n *policy.Numbers) engine.Limit {
	limit := engine.Limit{
		Algorithm: engine.Algorithm(l.Algorithm).OfPolicy(), Align: engine.Align(l.Align),
		Limit: n.Rate.Amount, Period: n.Rate.Period, Burst: n.Rate.Burst,
		Resets: uint16(l.Epoch.Reset), Scalings: uint16(l.Epoch.Proportion),
	}
	if n.Rate.Kind != policy.Limited { // blocked: no wait ends that
		limit.Limit, limit.Period, limit.Burst = 0, int64(time.Second), 0
	}
	return limit
}

// try tells whether records could be committed: whether they fit to the others,
// and the engine has room for their limits.
func (b *Book) try(records []*policy.Record, gone []string) error {
	edit := b.Set().Edit()
	for _, rec := range records {
		edit.Set(rec, policy.Meta{})
	}
	for _, name := range gone {
		edit.Delete(name)
	}
	next, err := edit.Finish(0)
	if err != nil {
		return err
	}
	for _, rec := range records {
		p := next.Policy([]byte(rec.Name))
		if p == nil {
			continue
		}
		err := b.prepare(p)
		b.release(p)
		if err != nil {
			return err
		}
	}
	return nil
}
