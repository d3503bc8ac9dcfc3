package limits

import (
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
	old := b.set.Load()
	edit := old.Edit()
	var changed []string
	all := false
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
		st, err := decodeStored(r.Value)
		if err == nil && st.Gone {
			edit.Delete(r.Name)
			changed = append(changed, r.Name)
			continue
		}
		var rec *policy.Record
		if err == nil {
			rec, err = b.read(r.Name, st.Text)
		}
		if err != nil {
			b.broken[r.Name] = err
			b.log.Error("a policy is not understood by this node: it answers errors", "policy", r.Name, "error", err)
			edit.Delete(r.Name)
			changed = append(changed, r.Name)
			continue
		}
		edit.Set(rec, st.meta())
		all = all || rec.Kind != policy.PolicyRecord
		changed = append(changed, r.Name)
	}
	next, err := edit.Finish(b.edits + 1)
	if err != nil {
		// What is committed was tried before, by a node of this version or by
		// another one. The set stays as it was: checks of these policies go on
		// under the version before, and say so.
		b.log.Error("policies are not understood by this node: they stay as they were", "policies", changed, "error", err)
		for _, name := range changed {
			b.broken[name] = err
		}
		return
	}
	b.edits++
	if all {
		changed = next.Names()
	}
	for _, name := range changed {
		if p := next.Policy([]byte(name)); p != nil && p != old.Policy([]byte(name)) {
			if err := b.prepare(p); err != nil {
				b.broken[name] = err
				b.log.Error("a policy's limits are not possible on this node", "policy", name, "error", err)
			}
		}
	}
	b.set.Store(next)
	// Checks that have read the old set finish with it: see engine.Ready.
	if all {
		changed = slices.Concat(changed, old.Names())
		slices.Sort(changed)
		changed = slices.Compact(changed)
	}
	for _, name := range changed {
		if p := old.Policy([]byte(name)); p != nil && p != next.Policy([]byte(name)) {
			b.release(p)
		}
	}
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
