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

// catchUp takes over the committed records.
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
		if s.Was != nil { // checks that have loaded the old policy still use it: see engine.Ready
			b.release(s.Was, s.Is)
		}
	}
	b.tell(&bt, next.set)
	b.done()
}

// next returns the view that a batch makes from the old view, and the policies that it
// replaces.
func (b *Book) next(old *view, bt *batch) (next *view, swaps []checks.Swap) {
	x := maker{Book: b, view: view{set: old.set, revision: old.revision, number: old.number, broken: maps.Clone(old.broken)}}
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
		switch r.Name {
		case revisionRecord:
			x.revision = r.Value
		case numberRecord:
			x.number = numberOf(r.Value)
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
	// Records that policies share come first.
	byRank := func(x, y bookEdit) int { return cmp.Compare(x.rank(), y.rank()) }
	if !slices.IsSortedFunc(edits, byRank) { // sorting many with a stable sort is slow
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

// bookEdit is the effect of one record on the set. The record is one of these: a policy or
// a record that policies share (nil if deleted); an override (gone if deleted); or the key
// for secrets, which policies of the same batch need.
type bookEdit struct {
	name     string
	key      []byte // the cluster's key for secrets
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

// policy returns the name of the policy that the edit changes. shared reports that the edit
// may change all policies.
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

// editOf returns the effect of a record on the set.
func (x *maker) editOf(r heard) (e bookEdit, ok bool) {
	e.name = r.Name
	switch {
	case strings.HasPrefix(r.Name, overridePrefix):
		value := r.Value
		if e.gone = value == nil; e.gone {
			value = r.was
		}
		if value == nil { // the record did not exist before
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
		if err != nil { // the earlier version must not stay in force
			x.breaks(r.Name, err)
		}
	}
	return e, true
}

// overrideNamed returns the override in force that has the given record, or nil. It
// searches all overrides of the policy. It is needed only for records that this node cannot
// read; feature levels prevent such records.
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
	x.log.Error("this node cannot read a policy: calls of it fail", "policy", name, "error", err)
}

// make returns the set that edits make from base. The edits of committed changes were
// tried, so they fit. If one does not fit on this node, the set is made without it.
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

// swapsOf returns the policies that edits have changed between two sets. If all is set, it
// compares every policy.
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

// ready prepares new policies: it registers their limits with the engine, and attaches
// their tallies. It calls failed for a policy that the engine refuses. It skips numbers
// that the old policy also has, because they are registered.
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

// intern registers the limits of a policy with the engine, which keeps one copy of equal
// limits. It skips numbers that are also in other. other may be nil.
func (b *Book) intern(p, other *policy.Policy) (err error) {
	for l, n := range notShared(p, other) {
		r, wrong := b.engine.Ready(checks.EngineLimit(l, n))
		if wrong != nil {
			err = fmt.Errorf("policy %s, limit %s: %w", p.Name, l.Name, wrong)
			continue
		}
		if n.Handle = r; p.Home() == "" || !b.homes.Several() {
			continue
		}
		all := checks.Readies{r}
		for _, e := range b.homes.Others() {
			other, _ := e.Ready(r.Limit()) // never fails: the first engine has taken it
			all = append(all, other)
		}
		n.Handle = all
	}
	return err
}

// release releases what intern has registered. It skips numbers that are also in other.
func (b *Book) release(p, other *policy.Policy) {
	for _, n := range notShared(p, other) {
		switch h := n.Handle.(type) {
		case engine.Ready:
			b.engine.Release(h)
		case checks.Readies:
			b.engine.Release(h[0])
			for i, e := range b.homes.Others() {
				e.Release(h[i+1])
			}
		}
	}
}

// notShared yields the numbers of a policy that are not in other. other may be nil.
func notShared(p, other *policy.Policy) iter.Seq2[*policy.Limit, *policy.Numbers] {
	if p.Shares(other) {
		return p.OwnNumbers()
	}
	return p.AllNumbers()
}
