package limits

import (
	"bytes"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/policy"
	"github.com/headgate-io/headgate/server/events"
)

// Book has the policies of a node. It follows the records that are committed: the
// set that checks use is replaced as a whole, when a change of them is committed.
type Book struct {
	engine *engine.Engine
	log    *slog.Logger
	audit  *slog.Logger // see server.Config
	// noGateways tells that no gateway is a trusted proxy of this node.
	noGateways bool
	events     *events.Log
	denials    *events.Denials

	// set is what checks use, unless behind tells that more is committed.
	set    atomic.Pointer[policy.Set]
	behind atomic.Bool
	// older tells that more than overrides is.
	older atomic.Bool
	// own tells that a change which this node has staged may be among that: to take
	// it over is cheap.
	own atomic.Bool
	// long tells that a large change is being taken over.
	long atomic.Bool

	// newsMu guards the records that are committed, and which of them are not in
	// the set yet.
	newsMu    sync.Mutex
	records   map[string][]byte // without news
	news      []engine.PolicyRecord
	newsBytes int  // of news, without those of anew
	newsMost  int  // bound of newsBytes
	anew      bool // there are no others than those of news
	folded    bool // news were too many, and are among records
	running   bool // a goroutine brings the set up to date

	// mu guards what follows, and is held while the set is made.
	mu sync.Mutex
	// revision is the record of the last change that is in the set.
	revision []byte
	// counting is for how many limits and lists of policies there are counts of
	// their own; the others have rest.
	counting atomic.Int64
	rest     *tally

	forms forms

	// unknown counts the checks of policies that there are not.
	unknown atomic.Uint64

	// brokenMu guards broken: policies whose records are not understood here, and
	// why.
	brokenMu sync.Mutex
	broken   map[string]error

	// reading admits texts that are read, and changed for, by their bytes.
	reading *semaphore.Weighted

	// file is that of this node, nil for none.
	file atomic.Pointer[ownFile]

	// stagedMu guards staged, the set of a change that is about to be committed.
	stagedMu sync.Mutex
	staged   *staged
}

// newsMost bounds what is committed and waits to be taken over, in bytes of names
// and values. What is more goes among the records at once, and the next set is made
// of all of them: that takes longer, and no memory.
const newsMost = 32 << 20

// NewBook returns the policies of e, which follows e's records from here on. Changes
// that are made here leave a line in audit. With noGateways no gateway is a trusted
// proxy of this node: it takes no routes by ip. What happens is posted to ev.
func NewBook(e *engine.Engine, log, audit *slog.Logger, noGateways bool, ev *events.Log) *Book {
	b := &Book{engine: e, log: log, audit: audit, noGateways: noGateways, events: ev, denials: events.NewDenials(ev), records: make(map[string][]byte), broken: make(map[string]error), rest: newTally(), newsMost: newsMost, reading: semaphore.NewWeighted(policy.MaxFile)}
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
		b.news, b.newsBytes, b.anew, b.folded = nil, 0, true, false
	}
	b.news = append(b.news, changes...)
	for i := range changes {
		b.newsBytes += len(changes[i].Name) + len(changes[i].Value)
	}
	if anew { // as much as there is, and the engine has it too
		b.newsBytes = 0
	}
	if b.newsBytes > b.newsMost {
		b.keep()
		b.folded = true
	}
	if anew || slices.ContainsFunc(changes, func(r engine.PolicyRecord) bool { return !strings.HasPrefix(r.Name, overridePrefix) }) {
		b.older.Store(true)
	}
	b.behind.Store(true)
	if !b.running {
		b.running = true
		go b.follow()
	}
}

// followPause is how long overrides may wait to be taken over while nobody asks for
// them, as a check does: a stream of them then makes a policy anew for many of its
// overrides, not for each.
const followPause = 100 * time.Millisecond

// follow brings the set up to date. It ends when there is nothing left to do.
func (b *Book) follow() {
	for {
		if !b.older.Load() {
			time.Sleep(followPause)
		}
		b.update()
		b.newsMu.Lock()
		if !b.waiting() {
			b.running = false
			b.newsMu.Unlock()
			return
		}
		b.newsMu.Unlock()
	}
}

// waiting reports whether there is something to be taken over. newsMu must be held.
func (b *Book) waiting() bool { return len(b.news) > 0 || b.anew || b.folded }

// heard is news of a record; was is what it was before.
type heard struct {
	engine.PolicyRecord
	was []byte
	// parts hold the text of a record that is in parts. If over is set, a newer
	// version exists, and they may be gone.
	parts [][]byte
	over  bool
}

// keep makes news part of the records, and returns them. anew tells that there are
// no other records. newsMu must be held.
func (b *Book) keep() (news []heard, anew bool) {
	if anew = b.anew; anew {
		clear(b.records)
	}
	news = make([]heard, 0, len(b.news))
	for _, r := range b.news {
		news = append(news, heard{PolicyRecord: r, was: b.records[r.Name]})
		if r.Value == nil {
			delete(b.records, r.Name)
		} else {
			b.records[r.Name] = r.Value
		}
	}
	b.news, b.newsBytes, b.anew = nil, 0, false
	return news, anew
}

// take returns what is to be taken over, which is among the records then.
func (b *Book) take() (news []heard, anew bool) {
	b.newsMu.Lock()
	defer b.newsMu.Unlock()
	b.long.Store(b.newsBytes > briefNews || b.anew || b.folded)
	news, anew = b.keep()
	if b.folded {
		b.folded, anew, news = false, true, news[:0]
		for name, value := range b.records {
			news = append(news, heard{PolicyRecord: engine.PolicyRecord{Name: name, Value: value}})
		}
	}
	for i := range news {
		if r := &news[i]; bytes.HasPrefix(r.Value, inParts) && !strings.HasPrefix(r.Name, internalPrefix) {
			r.parts, r.over = partsOf(r.Name, r.Value, b.of), !bytes.Equal(r.Value, b.of(r.Name))
		}
	}
	return news, anew
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

// Stats is what a Book tells of itself.
type Stats struct {
	// Policies are in force, as the change numbered Revision has left them; of
	// overrides, which are no versions, it tells nothing.
	Policies int
	Revision uint64
	// Unknown is how many checks named a policy that there is not, since the start.
	Unknown uint64
	// FileDiffers tells that the policies in force are those of another file than
	// this node's.
	FileDiffers bool
}

// Stats returns the figures of the moment.
func (b *Book) Stats() Stats {
	set, _ := b.current()
	return Stats{Policies: len(set.Names()), Revision: set.Revision(), Unknown: b.unknown.Load(), FileDiffers: b.fileDiffers()}
}

// briefNews is how many bytes of news are taken over in no time, a handful of
// policies.
const briefNews = 64 << 10

// current is Set for who need not know a large change that has just been committed,
// as a file of thousands of policies: it does not wait for that. behind tells that
// there is one that is not in the set yet. So no loop of a follower stands still.
func (b *Book) current() (set *policy.Set, behind bool) {
	if !b.behind.Load() {
		return b.set.Load(), false
	}
	b.newsMu.Lock()
	brief := b.newsBytes <= briefNews && !b.anew && !b.folded && !b.long.Load()
	b.newsMu.Unlock()
	if brief {
		b.update()
	}
	behind = b.behind.Load() // before the set, which may be taken over meanwhile
	return b.set.Load(), behind
}

// update makes the next set of what is committed.
func (b *Book) update() {
	b.mu.Lock()
	defer b.mu.Unlock()
	news, anew := b.take()
	if anew || len(news) > 0 {
		b.apply(news, anew)
	}
	b.long.Store(false)
	b.newsMu.Lock()
	if !b.waiting() {
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
	b.newsMu.Lock()
	defer b.newsMu.Unlock()
	return b.records[name]
}

// standing returns the set that is committed, and the record of the last change of
// it, nil for none.
func (b *Book) standing() (set *policy.Set, revision []byte) {
	b.Set()
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.set.Load(), b.revision
}

// stored returns the committed record of a name, with its text.
func (b *Book) stored(name string) (st stored, ok bool) { return b.whole(name, name) }

// head is stored without a text that is in parts, of any version's record.
func (b *Book) head(record string) (st stored, ok bool) {
	value := b.record(record)
	if value == nil {
		return stored{}, false
	}
	st, err := decodeStored(value)
	return st, err == nil
}

// whole is stored of a version's record.
func (b *Book) whole(name, record string) (st stored, ok bool) {
	b.Set() // what is committed is known
	b.newsMu.Lock()
	value := b.records[record]
	parts := partsOf(name, value, b.of)
	b.newsMu.Unlock()
	if value == nil {
		return stored{}, false
	}
	st, err := decodeStored(value)
	if err == nil {
		err = st.join(parts)
	}
	return st, err == nil
}

// of returns the value of a record that is taken over. newsMu must be held.
func (b *Book) of(record string) []byte { return b.records[record] }

// names returns the names of the committed records of policies, attributes and
// lists, sorted.
func (b *Book) names() []string {
	b.Set()
	b.newsMu.Lock()
	names := slices.Collect(maps.Keys(b.records))
	b.newsMu.Unlock()
	names = slices.DeleteFunc(names, func(name string) bool { return strings.HasPrefix(name, internalPrefix) })
	slices.Sort(names)
	return names
}

// trouble returns why a policy's record is not understood on this node.
func (b *Book) trouble(name string) error {
	b.brokenMu.Lock()
	defer b.brokenMu.Unlock()
	return b.broken[name]
}
