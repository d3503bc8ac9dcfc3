package policies

import (
	"fmt"
	"strings"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/policy"
	"github.com/headgate-io/headgate/server/checks"
)

// # Staged sets
//
// Before the editor puts a change, it makes the next set and registers the set's limits.
// When the change is committed, the book only stores a pointer to take it over. So checks
// need not wait longer than that.

// staged is a set of policies that becomes the next set when its change is committed.
type staged struct {
	base, next *policy.Set
	swaps      []checks.Swap
	revision   []byte // the change's record of the revision
}

// is reports whether a record is the revision of the staged change.
func (st *staged) is(r *engine.PolicyRecord) bool {
	return r.Name == revisionRecord && len(r.Value) > 0 && len(st.revision) > 0 && &r.Value[0] == &st.revision[0]
}

// fits reports whether old and news together make the staged set. That is so if news are
// the staged change without any other. Changes come one at a time, but overrides may come
// with them.
func (st *staged) fits(old *policy.Set, news []heard) bool {
	mine := false
	for i := range news {
		if strings.HasPrefix(news[i].Name, overridePrefix) {
			return false
		}
		mine = mine || st.is(&news[i].PolicyRecord)
	}
	return mine && st.base == old
}

// asleep returns how many overrides of a policy will sleep after the change, because they
// no longer fit.
func (st *staged) asleep(name string) (n int) {
	for o := range st.next.Overrides(name) {
		if st.next.Sleeps(&o) && !st.base.Sleeps(&o) {
			n++
		}
	}
	return n
}

// build makes the set of a change and registers its limits. If it returns an error, no
// limits stay registered.
func (b *Book) build(base *policy.Set, edits []bookEdit, revision []byte) (*staged, error) {
	editor := base.Edit()
	for i := range edits {
		edits[i].apply(editor)
	}
	next, err := editor.Finish(base.Revision() + 1)
	if err == nil {
		err = next.CheckRoutes()
		if err != nil && len(edits) == 1 && edits[0].key == nil && edits[0].record == nil {
			err = fmt.Errorf("a route uses the policy to delete: %w", err)
		}
	}
	if err == nil && b.noGateways && hasRoutes(edits) {
		err = next.CheckAddresses()
	}
	if err != nil {
		return nil, err
	}
	st := &staged{base, next, swapsOf(base, next, edits, false), revision}
	b.ready(st.swaps, func(_ string, wrong error) {
		if err == nil {
			err = wrong
		}
	})
	if err != nil {
		b.drop(st)
		return nil, err
	}
	return st, nil
}

// drop releases the limits of a set that will not be used.
func (b *Book) drop(st *staged) {
	for _, s := range st.swaps {
		if s.Is != nil {
			b.release(s.Is, s.Was)
		}
	}
}

// stage stores a set, until its change is committed or another set is staged.
func (b *Book) stage(st *staged) {
	b.queue.mu.Lock()
	before := b.queue.staged
	b.queue.staged = st
	b.queue.mu.Unlock()
	if before != nil {
		b.drop(before)
	}
}

// unstage removes a set whose change was not put.
func (b *Book) unstage(st *staged) {
	b.queue.mu.Lock()
	mine := b.queue.staged == st
	if mine {
		b.queue.staged = nil
	}
	b.queue.mu.Unlock()
	if mine {
		b.drop(st)
	}
}
