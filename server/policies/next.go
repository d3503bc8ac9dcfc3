package policies

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/policy"
	"github.com/headgate-io/headgate/policy/grammar"
	"github.com/headgate-io/headgate/server/checks"
)

// catchUp takes over what is committed.
func (b *Book) catchUp() {
	b.making.Lock()
	defer b.making.Unlock()
	bt, some := b.take()
	if !some {
		return
	}
	old := b.view.Load()
	next, swaps := b.next(old, &bt)
	b.view.Store(next)
	b.tallies.Replace(swaps)
	for _, s := range swaps {
		if s.Was != nil { // checks that have read it finish with it: see engine.Ready
			b.release(s.Was, s.Is)
		}
	}
	b.tell(&bt, next.set)
	b.done()
}

// next returns the view that a batch makes of another one, and what it swaps.
func (b *Book) next(old *view, bt *batch) (next *view, swaps []checks.Swap) {
	x := maker{Book: b, view: view{set: old.set, revision: old.revision, broken: maps.Clone(old.broken)}}
	if bt.anew {
		x.view = view{set: b.empty()}
	}
	st := bt.staged
	if st != nil && (bt.anew || !st.fits(old.set, bt.news)) {
		b.drop(st)
		st = nil
	}
	var edits []bookEdit
	for _, r := range bt.news {
		if r.Name == revisionRecord {
			x.revision = r.Value
		}
		delete(x.broken, r.Name)
		if st != nil {
			continue
		}
		if e, ok := x.editOf(r); ok {
			edits = append(edits, e)
		}
	}
	if st != nil {
		x.set = st.next
		return &x.view, st.swaps
	}
	// What policies share comes first.
	byRank := func(x, y bookEdit) int { return cmp.Compare(x.rank(), y.rank()) }
	if !slices.IsSortedFunc(edits, byRank) { // a stable sort of many is slow
		slices.SortStableFunc(edits, byRank)
	}
	x.set = x.make(x.set, edits)
	if x.set == old.set {
		return &x.view, nil
	}
	swaps = swapsOf(old.set, x.set, edits, bt.anew)
	b.ready(swaps, x.breaks)
	return &x.view, swaps
}

// maker makes a view.
type maker struct {
	*Book
	view
}

// bookEdit is what a record makes of the set: of a policy or what policies share
// the record, nil if it is gone; or an override, with gone if that is; or the key
// for secrets, which policies need that come with it.
type bookEdit struct {
	name     string
	key      []byte // the cluster's, for secrets
	record   *policy.Record
	meta     policy.Meta
	override *policy.Override
	gone     bool
}

func (e *bookEdit) rank() int {
	switch {
	case e.key != nil:
		return -1
	case e.override != nil:
		return 2
	case e.record == nil || e.record.Kind == policy.PolicyRecord:
		return 1
	}
	return 0
}

// policy is the name of the policy that the edit is about; shared reports whether it
// may be about all.
func (e *bookEdit) policy() (name string, shared bool) {
	if e.override != nil {
		return e.override.Policy, false
	}
	kind := policy.KindOf(e.name)
	return e.name, kind == policy.AttributesRecord || kind == policy.ListRecord
}

// apply makes the edit.
func (e *bookEdit) apply(editor *policy.Editor) {
	switch {
	case e.key != nil:
		editor.SetSecret(e.key)
	case e.override != nil && e.gone:
		editor.DeleteOverride(*e.override)
	case e.override != nil:
		editor.SetOverride(*e.override)
	case e.record == nil:
		editor.Retire(e.name, e.meta.Epochs)
	default:
		editor.Set(e.record, e.meta)
	}
}

// editOf returns what a record makes of the set.
func (x *maker) editOf(r heard) (e bookEdit, ok bool) {
	e.name = r.Name
	switch {
	case strings.HasPrefix(r.Name, overridePrefix):
		value := r.Value
		if e.gone = value == nil; e.gone {
			value = r.was
		}
		if value == nil { // it was not there
			return e, false
		}
		o, err := policy.DecodeOverride(value)
		if err != nil {
			if !e.gone {
				x.breaks(r.Name, err)
			}
			e.gone = true
			e.override = x.overrideNamed(r.Name)
			return e, e.override != nil
		}
		e.override = &o
	case r.Name == secretRecord:
		e.key = r.Value
		return e, e.key != nil
	case strings.HasPrefix(r.Name, internalPrefix) || r.over:
		return e, false
	default:
		st, err := decodeStored(r.Value)
		if err == nil {
			err = st.join(r.parts)
		}
		if e.meta = st.meta(); err == nil && !st.Gone {
			e.record, err = grammar.ParseRecord(r.Name, r.Name, []byte(st.Text))
		}
		if err != nil { // what it was before must not go on
			x.breaks(r.Name, err)
		}
	}
	return e, true
}

// overrideNamed returns the override in force whose record has the name, or nil. It
// goes through all of its policy: it is asked only about records that this node
// does not understand, which feature levels keep from it.
func (x *maker) overrideNamed(record string) *policy.Override {
	name := strings.TrimPrefix(record, overridePrefix)
	name = name[:max(0, strings.LastIndexByte(name, '/'))]
	for o := range x.InForce().Overrides(name) {
		if overrideRecord(&o) == record {
			return &o
		}
	}
	return nil
}

// breaks notes a record that this node cannot use.
func (x *maker) breaks(name string, err error) {
	if x.broken == nil {
		x.broken = make(map[string]error)
	}
	x.broken[name] = err
	x.log.Error("a policy is not understood by this node", "policy", name, "error", err)
}

// make returns the set that edits make of another one. What is committed was tried
// before, so it fits; should an edit be impossible here all the same, the others
// are made without it.
func (x *maker) make(base *policy.Set, edits []bookEdit) *policy.Set {
	if len(edits) == 0 {
		return base
	}
	editor := base.Edit()
	for i := range edits {
		edits[i].apply(editor)
	}
	next, err := editor.Finish(base.Revision() + 1)
	switch {
	case err != nil && len(edits) == 1:
		x.breaks(edits[0].name, err)
		return base
	case err != nil:
		half := len(edits) / 2
		return x.make(x.make(base, edits[:half]), edits[half:])
	}
	return next
}

// swapsOf returns the policies that edits have changed from a set to the next one; all
// if they may be about all.
func swapsOf(old, next *policy.Set, edits []bookEdit, all bool) (swaps []checks.Swap) {
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
	for _, name := range slices.Compact(names) {
		was, is := old.Policy([]byte(name)), next.Policy([]byte(name))
		if was != is {
			swaps = append(swaps, checks.Swap{Was: was, Is: is})
		}
	}
	return swaps
}

// ready makes the policies that come ready to be used: the engine interns their limits,
// and they get their tallies. failed is told of a policy that the engine does not take.
// Of numbers that a policy shares with the one before it nothing is to be done: these
// are interned, and in use.
func (b *Book) ready(swaps []checks.Swap, failed func(name string, err error)) {
	for _, s := range swaps {
		if s.Is == nil {
			continue
		}
		if err := b.intern(s.Is, s.Was); err != nil {
			failed(s.Is.Name, err)
		}
	}
	b.tallies.Attach(swaps)
}

// intern has the engine intern the limits of a policy, but for numbers that it shares
// with another one, which may be nil.
func (b *Book) intern(p, other *policy.Policy) (err error) {
	for l, n := range notShared(p, other) {
		r, wrong := b.engine.Ready(checks.EngineLimit(l, n))
		if wrong != nil {
			err = fmt.Errorf("policy %s, limit %s: %w", p.Name, l.Name, wrong)
			continue
		}
		n.Handle = r
	}
	return err
}

// release gives back what intern has taken, but for what another policy goes on with.
func (b *Book) release(p, other *policy.Policy) {
	for _, n := range notShared(p, other) {
		if r, ok := n.Handle.(engine.Ready); ok {
			b.engine.Release(r)
		}
	}
}

// notShared yields the numbers of a policy that another one, which may be nil, does not
// have too.
func notShared(p, other *policy.Policy) iter.Seq2[*policy.Limit, *policy.Numbers] {
	if p.Shares(other) {
		return p.OwnNumbers()
	}
	return p.AllNumbers()
}
