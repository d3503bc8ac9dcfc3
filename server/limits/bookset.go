package limits

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/policy"
)

// apply takes over changes of records, which have them; anew tells that there are
// no others. mu must be held.
func (b *Book) apply(news []heard, anew bool) {
	old := b.set.Load()
	base := old
	if anew {
		b.revision = nil
		b.mends("")
		base = b.empty()
	}
	st := b.takeStaged(old, news)
	var edits []bookEdit
	for _, r := range news {
		switch r.Name {
		case revisionRecord:
			b.revision = r.Value
		case fileRecord:
			b.warnOfFile(r.was, r.Value)
		}
		b.mends(r.Name)
		if st != nil && !anew {
			continue
		}
		if e, ok := b.editOf(r); ok {
			edits = append(edits, e)
		}
	}
	if !anew {
		b.tellChanges(news)
	}
	if st != nil && !anew {
		b.replace(old, st.next, st.names)
		return
	}
	b.drop(st)
	// What policies share comes first.
	byRank := func(x, y bookEdit) int { return cmp.Compare(x.rank(), y.rank()) }
	if !slices.IsSortedFunc(edits, byRank) { // a stable sort of many is slow
		slices.SortStableFunc(edits, byRank)
	}
	next := b.make(base, edits)
	if next == old {
		return
	}
	names := affected(old, next, edits, anew)
	room := b.room()
	eachChange(old, next, names, func(was, is *policy.Policy) {
		if is == nil {
			return
		}
		if err := b.prepare(is, was); err != nil {
			b.breaks(is.Name, err)
		}
		b.know(is, was, &room)
	})
	b.replace(old, next, names)
	if b.noGateways && hasRoutes(edits) {
		b.warnOfRoutes(next)
	}
}

// empty returns a set without policies.
func (b *Book) empty() *policy.Set { return policy.NewSet(policy.Config{Seed: b.engine.Seed()}) }

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

// policy is the name of the policy that the edit is about; shared tells that it may
// be about all.
func (e *bookEdit) policy() (name string, shared bool) {
	if e.override != nil {
		return e.override.Policy, false
	}
	kind := policy.KindOf(e.name)
	return e.name, kind == policy.AttributesRecord || kind == policy.ListRecord
}

// editOf returns what a record makes of the set.
func (b *Book) editOf(r heard) (e bookEdit, ok bool) {
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
				b.breaks(r.Name, err)
			}
			e.gone = true
			e.override = b.overrideNamed(r.Name)
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
			e.record, err = policy.ParseRecord(r.Name, r.Name, []byte(st.Text))
		}
		if err != nil { // what it was before must not go on
			b.breaks(r.Name, err)
		}
	}
	return e, true
}

// overrideNamed returns the override in force whose record has the name, or nil. It
// goes through all of its policy: it is asked only about records that this node
// does not understand, which feature levels keep from it.
func (b *Book) overrideNamed(record string) *policy.Override {
	name := strings.TrimPrefix(record, overridePrefix)
	name = name[:max(0, strings.LastIndexByte(name, '/'))]
	for o := range b.set.Load().Overrides(name) {
		if overrideRecord(&o) == record {
			return &o
		}
	}
	return nil
}

// breaks notes a record that this node cannot use.
func (b *Book) breaks(name string, err error) {
	b.brokenMu.Lock()
	b.broken[name] = err
	b.brokenMu.Unlock()
	b.log.Error("a policy is not understood by this node", "policy", name, "error", err)
}

// mends forgets why a record could not be used, or with "" all records.
func (b *Book) mends(name string) {
	b.brokenMu.Lock()
	defer b.brokenMu.Unlock()
	if name == "" {
		clear(b.broken)
	}
	delete(b.broken, name)
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
	next, err := editor.Finish(base.Revision() + 1)
	switch {
	case err != nil && len(edits) == 1:
		b.breaks(edits[0].name, err)
		return base
	case err != nil:
		half := len(edits) / 2
		return b.make(b.make(base, edits[:half]), edits[half:])
	}
	return next
}

// affected returns the names of the policies that edits may have changed, sorted.
func affected(old, next *policy.Set, edits []bookEdit, all bool) []string {
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
	return slices.Compact(names)
}

// eachChange calls fn with the policies of some names that are not the same in two
// sets; nil is one that is not there.
func eachChange(old, next *policy.Set, names []string, fn func(was, is *policy.Policy)) {
	for _, name := range names {
		was, is := old.Policy([]byte(name)), next.Policy([]byte(name))
		if was != is {
			fn(was, is)
		}
	}
}

// replace puts a set in the place of the one before. mu must be held.
func (b *Book) replace(old, next *policy.Set, names []string) {
	b.set.Store(next)
	// Checks that have read the old set finish with it: see engine.Ready.
	eachChange(old, next, names, func(was, is *policy.Policy) {
		if is == nil || was == nil || is.Handle != was.Handle {
			b.counting.Add(int64(b.counted(is) - b.counted(was)))
		}
		if was != nil {
			b.release(was, is)
		}
	})
}

// room is for how many limits and lists more there may be counts.
func (b *Book) room() int { return countedMost - int(b.counting.Load()) }

// # Staged sets
//
// Who makes a change has the next set made and its limits interned before the
// change is put, so that to take it over, once it is committed, is to store a
// pointer: checks wait for that and no longer.

// staged is a set that is about to be the next one.
type staged struct {
	base, next *policy.Set
	names      []string // of the policies that differ
	revision   []byte   // the record of the change
}

// asleep returns how many overrides of a policy the change puts to sleep.
func (st *staged) asleep(name string) (n int) {
	for o := range st.next.Overrides(name) {
		if st.next.Sleeps(&o) && !st.base.Sleeps(&o) {
			n++
		}
	}
	return n
}

// build makes the set of a change, and readies its limits. On an error nothing is
// left.
func (b *Book) build(base *policy.Set, edits []bookEdit, revision []byte) (*staged, error) {
	editor := base.Edit()
	for _, e := range edits {
		switch {
		case e.key != nil:
			editor.SetSecret(e.key)
		case e.record == nil:
			editor.Retire(e.name, e.meta.Epochs)
		default:
			editor.Set(e.record, e.meta)
		}
	}
	next, err := editor.Finish(base.Revision() + 1)
	if err == nil {
		err = next.CheckRoutes()
		if err != nil && len(edits) == 1 && edits[0].key == nil && edits[0].record == nil {
			err = fmt.Errorf("a route needs what is to be deleted: %w", err)
		}
	}
	if err == nil && b.noGateways && hasRoutes(edits) {
		err = next.CheckAddresses()
	}
	if err != nil {
		return nil, err
	}
	st := &staged{base, next, affected(base, next, edits, false), revision}
	room := b.room()
	eachChange(base, next, st.names, func(was, is *policy.Policy) {
		if is != nil {
			wrong := b.prepare(is, was)
			b.know(is, was, &room)
			if wrong != nil && err == nil {
				err = wrong
			}
		}
	})
	if err != nil {
		b.drop(st)
		return nil, err
	}
	return st, nil
}

// drop gives back what a set has that is not to be used, if there is one.
func (b *Book) drop(st *staged) {
	if st == nil {
		return
	}
	eachChange(st.base, st.next, st.names, func(was, is *policy.Policy) {
		if is != nil {
			b.release(is, was)
		}
	})
}

// stage keeps a set until its change is committed.
func (b *Book) stage(st *staged) {
	b.stagedMu.Lock()
	before := b.staged
	b.staged = st
	b.own.Store(true)
	b.stagedMu.Unlock()
	b.drop(before)
}

// unstage takes back a set whose change was not put.
func (b *Book) unstage(st *staged) {
	b.stagedMu.Lock()
	mine := b.staged == st
	if mine {
		b.staged = nil
	}
	b.stagedMu.Unlock()
	if mine {
		b.drop(st)
	}
}

// takeStaged returns the set that was staged for exactly these changes of old, or
// nil.
func (b *Book) takeStaged(old *policy.Set, news []heard) *staged {
	b.stagedMu.Lock()
	st := b.staged
	b.staged = nil
	b.stagedMu.Unlock()
	if st == nil {
		return nil
	}
	// Changes come one at a time; overrides may come with them.
	fits := st.base == old && len(st.revision) > 0
	theirs := false
	for _, r := range news {
		switch {
		case r.Name == revisionRecord && len(r.Value) > 0:
			theirs = &r.Value[0] == &st.revision[0]
		case strings.HasPrefix(r.Name, overridePrefix):
			fits = false
		}
	}
	if !fits || !theirs {
		b.drop(st)
		return nil
	}
	return st
}

// prepare interns all limits of a policy, but of numbers that it shares with the one
// before it, which may be nil: these are interned, and in use.
func (b *Book) prepare(p, before *policy.Policy) (err error) {
	for l, n := range notShared(p, before) {
		r, wrong := b.engine.Ready(engineLimit(l, n))
		if wrong != nil {
			err = fmt.Errorf("policy %s, limit %s: %w", p.Name, l.Name, wrong)
			continue
		}
		n.Handle = r
	}
	return err
}

// release gives back what prepare has taken, but what goes on in another policy.
func (b *Book) release(p, other *policy.Policy) {
	for _, n := range notShared(p, other) {
		if r, ok := n.Handle.(engine.Ready); ok {
			b.engine.Release(r)
		}
	}
}

// windowOf is the window of a limit's calendar that contains the present, nil for a
// limit without one, or of no period.
func windowOf(l *policy.Limit, now int64) *algo.Window {
	if l.Calendar == nil {
		return nil
	}
	return (*algo.Window)(l.Calendar.Window(now))
}

// notShared yields the numbers of a policy that another one, which may be nil, has
// not too.
func notShared(p, other *policy.Policy) iter.Seq2[*policy.Limit, *policy.Numbers] {
	if p.Shares(other) {
		return p.OwnNumbers()
	}
	return p.AllNumbers()
}

// engineLimit is a limit of a policy, with some of its numbers, as the engine has
// it.
func engineLimit(l *policy.Limit, n *policy.Numbers) algo.Limit {
	limit := algo.Limit{
		Algorithm: algo.Algorithm(l.Algorithm).OfPolicy(), Align: algo.Align(l.Align),
		Limit: n.Rate.Amount, Period: n.Rate.Period, Burst: n.Rate.Burst,
		Resets: uint16(l.Epoch.Reset), Scalings: uint16(l.Epoch.Proportion),
	}
	if n.Rate.Kind != policy.Limited { // blocked: no wait ends that
		limit.Limit, limit.Period, limit.Burst = 0, int64(time.Second), 0
	}
	switch l.Algorithm {
	case policy.Calendar:
		limit.Period = 0
	case policy.Concurrent:
		limit.Algorithm, limit.Period = algo.PolicySlots, l.TTL
	}
	return limit
}
