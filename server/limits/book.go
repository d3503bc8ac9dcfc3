package limits

import (
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

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
	// older tells that more than overrides is.
	older atomic.Bool
	// own tells that a change which this node has staged may be among that: to take
	// it over is cheap.
	own atomic.Bool

	// newsMu guards what is committed and not in the set yet.
	newsMu  sync.Mutex
	news    []engine.PolicyRecord
	anew    bool // there are no others than those of news
	running bool // a goroutine brings the set up to date

	// mu guards what follows, and is held while the set is made.
	mu      sync.Mutex
	records map[string][]byte // committed
	// counting is for how many limits and lists of policies there are counts of
	// their own; the others have rest.
	counting atomic.Int64
	rest     *tally
	// broken are policies whose records are not understood here, and why.
	broken map[string]error

	// file is that of this node, nil for none.
	file atomic.Pointer[ownFile]

	// stagedMu guards staged, the set of a change that is about to be committed.
	stagedMu sync.Mutex
	staged   *staged
}

// NewBook returns the policies of e, which follows e's records from here on.
func NewBook(e *engine.Engine, log *slog.Logger) *Book {
	b := &Book{engine: e, log: log, records: make(map[string][]byte), broken: make(map[string]error), rest: newTally()}
	b.set.Store(b.empty())
	e.WatchPolicies(b.hear)
	e.VoidCounters(b.void)
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
	if anew || slices.ContainsFunc(changes, func(r engine.PolicyRecord) bool { return !strings.HasPrefix(r.Name, overridePrefix) }) {
		b.older.Store(true)
	}
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
// been committed to be taken over: hardly ever for longer than it takes to store a
// pointer, since the node that has made the change has staged the set, but for a
// node that has just become the leader, and for overrides.
func (b *Book) Set() *policy.Set {
	if b.behind.Load() {
		b.update()
	}
	return b.set.Load()
}

// texts returns a set that has the texts that are committed, and perhaps not the
// last overrides: who sets many of these need not wait for a set with each.
func (b *Book) texts() *policy.Set {
	if b.older.Load() {
		b.update()
	}
	return b.set.Load()
}

// void is of engine.VoidCounters. It is asked with a shard locked, and so waits for
// changes of this node's own alone: whoever made one of them sees it. Those of
// others it may see a little later, as a follower does.
func (b *Book) void(key []byte, resets uint16) bool {
	set := b.set.Load()
	if b.older.Load() && b.own.Load() {
		set = b.texts()
	}
	return set.Void(key, resets)
}

// Count returns how many policies there are.
func (b *Book) Count() int { return len(b.Set().Names()) }

// update makes the next set of what is committed.
func (b *Book) update() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.newsMu.Lock()
	news, anew := b.news, b.anew
	b.news, b.anew = nil, false
	b.newsMu.Unlock()
	if anew || len(news) > 0 {
		b.apply(news, anew)
	}
	b.newsMu.Lock()
	if len(b.news) == 0 && !b.anew {
		b.behind.Store(false)
		b.older.Store(false)
		b.stagedMu.Lock()
		b.own.Store(b.staged != nil)
		b.stagedMu.Unlock()
	}
	b.newsMu.Unlock()
}

// record returns the committed value of a record, nil for none.
func (b *Book) record(name string) []byte {
	b.Set() // what is committed is known
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.records[name]
}

// standing returns the set that is committed, and the record of the last change of
// it, nil for none.
func (b *Book) standing() (set *policy.Set, revision []byte) {
	b.Set()
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.set.Load(), b.records[revisionRecord]
}

// stored returns the committed record of a name.
func (b *Book) stored(name string) (st stored, ok bool) {
	value := b.record(name)
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
