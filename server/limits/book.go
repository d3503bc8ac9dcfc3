package limits

import (
	"cmp"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/policy"
)

// Book has the policies of a node. It follows the records that are committed: the
// set that checks use is replaced as a whole, when a change of them is committed.
type Book struct {
	engine *engine.Engine
	log    *slog.Logger

	// set is what checks use, unless behind tells that more is committed.
	set    atomic.Pointer[policy.Set]
	behind atomic.Bool

	// newsMu guards what is committed and not in the set yet.
	newsMu  sync.Mutex
	news    []engine.PolicyRecord
	anew    bool // there are no others than those of news
	running bool // a goroutine brings the set up to date

	// mu guards what follows, and is held while the set is made.
	mu      sync.Mutex
	records map[string][]byte // committed
	edits   uint64            // of the set, for its revision
	// broken are policies whose records are not understood here, and why.
	broken map[string]error

	// readyMu guards ready, the texts that have been read for a change that is
	// about to be committed, by the name of their record.
	readyMu sync.Mutex
	ready   map[string]readText
}

// readText is a text that has been read.
type readText struct {
	text   string
	record *policy.Record
}

// maxReady bounds what is kept of texts that were read: changes that never come
// to be committed leave theirs behind.
const maxReady = 64

// NewBook returns the policies of e, which follows e's records from here on.
func NewBook(e *engine.Engine, log *slog.Logger) *Book {
	b := &Book{engine: e, log: log, records: make(map[string][]byte), broken: make(map[string]error), ready: make(map[string]readText)}
	b.set.Store(policy.NewSet(policy.Config{Seed: e.Seed()}))
	e.WatchPolicies(b.hear)
	return b
}

// hear takes what has been committed. It does not wait for a set to be made.
func (b *Book) hear(changes []engine.PolicyRecord, anew bool) {
	b.newsMu.Lock()
	defer b.newsMu.Unlock()
	if anew {
		b.news, b.anew = nil, true
	}
	b.news = append(b.news, changes...)
	b.behind.Store(true)
	if !b.running {
		b.running = true
		go b.follow()
	}
}

// follow brings the set up to date. It ends when there is nothing left to do.
func (b *Book) follow() {
	for {
		b.update()
		b.newsMu.Lock()
		if len(b.news) == 0 && !b.anew {
			b.running = false
			b.newsMu.Unlock()
			return
		}
		b.newsMu.Unlock()
	}
}

// Set returns the policies that are committed. It waits for a change that has just
// been committed to be taken over: about as long as it takes to copy a map, since
// the node that decides has read its text before, but for one that has just
// become the leader.
func (b *Book) Set() *policy.Set {
	if b.behind.Load() {
		b.update()
	}
	return b.set.Load()
}

// update makes the next set of what is committed.
func (b *Book) update() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.newsMu.Lock()
	news, anew := b.news, b.anew
	b.news, b.anew = nil, false
	b.newsMu.Unlock()
	if anew {
		known := make(map[string]bool, len(news))
		for _, r := range news {
			known[r.Name] = r.Value != nil
		}
		for name := range b.records {
			if !known[name] {
				news = append(news, engine.PolicyRecord{Name: name})
			}
		}
	}
	if len(news) > 0 {
		b.apply(news)
	}
	b.newsMu.Lock()
	if len(b.news) == 0 && !b.anew {
		b.behind.Store(false)
	}
	b.newsMu.Unlock()
}

// apply takes over changes of records. mu must be held.
func (b *Book) apply(news []engine.PolicyRecord) {
	var edits []bookEdit
	for _, r := range news {
		if r.Value == nil {
			delete(b.records, r.Name)
		} else {
			b.records[r.Name] = r.Value
		}
		if strings.HasPrefix(r.Name, internalPrefix) {
			continue
		}
		delete(b.broken, r.Name)
		e := bookEdit{name: r.Name}
		st, err := decodeStored(r.Value)
		if err == nil && !st.Gone {
			e.meta = st.meta()
			e.record, err = b.read(r.Name, st.Text)
		}
		if err != nil {
			b.breaks(r.Name, err)
		}
		edits = append(edits, e)
	}
	// What policies share comes first.
	slices.SortStableFunc(edits, func(x, y bookEdit) int { return cmp.Compare(x.rank(), y.rank()) })
	b.edit(edits)
}

// bookEdit is what a record makes of the set; with a nil record it is gone.
type bookEdit struct {
	name   string
	record *policy.Record
	meta   policy.Meta
}

func (e *bookEdit) rank() int {
	if e.record == nil || e.record.Kind == policy.PolicyRecord {
		return 1
	}
	return 0
}

// breaks notes a record that this node cannot use.
func (b *Book) breaks(name string, err error) {
	b.broken[name] = err
	b.log.Error("a policy is not understood by this node", "policy", name, "error", err)
}

// edit makes the next set. What is committed was tried before, so it fits; should
// an edit be impossible here all the same, the others are made without it. mu must
// be held.
func (b *Book) edit(edits []bookEdit) {
	if len(edits) == 0 {
		return
	}
	old := b.set.Load()
	editor := old.Edit()
	for _, e := range edits {
		if e.record == nil {
			editor.Delete(e.name)
		} else {
			editor.Set(e.record, e.meta)
		}
	}
	next, err := editor.Finish(b.edits + 1)
	switch {
	case err != nil && len(edits) == 1:
		b.breaks(edits[0].name, err)
		return
	case err != nil:
		b.edit(edits[:len(edits)/2])
		b.edit(edits[len(edits)/2:])
		return
	}
	b.edits++
	b.replace(old, next, edits)
}

// replace puts a set in the place of the one before. mu must be held.
func (b *Book) replace(old, next *policy.Set, edits []bookEdit) {
	names := make([]string, 0, len(edits))
	for _, e := range edits {
		names = append(names, e.name)
	}
	if edits[0].rank() == 0 || slices.ContainsFunc(names, func(name string) bool { return old.Policy([]byte(name)) == nil && next.Policy([]byte(name)) == nil }) {
		names = append(slices.Clone(old.Names()), next.Names()...) // what is shared is of all
		slices.Sort(names)
		names = slices.Compact(names)
	}
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

// revision returns the committed record of the last change, nil for none.
func (b *Book) revision() []byte {
	b.Set()
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.records[revisionRecord]
}

// stored returns the committed record of a name.
func (b *Book) stored(name string) (st stored, ok bool) {
	b.Set() // what is committed is known
	b.mu.Lock()
	value := b.records[name]
	b.mu.Unlock()
	if value == nil {
		return stored{}, false
	}
	st, err := decodeStored(value)
	return st, err == nil
}

// names returns the names of the committed records of policies, attributes and
// lists, sorted.
func (b *Book) names() []string {
	b.Set()
	b.mu.Lock()
	names := slices.Collect(maps.Keys(b.records))
	b.mu.Unlock()
	names = slices.DeleteFunc(names, func(name string) bool { return strings.HasPrefix(name, internalPrefix) })
	slices.Sort(names)
	return names
}

// trouble returns why a policy's record is not understood on this node.
func (b *Book) trouble(name string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.broken[name]
}
