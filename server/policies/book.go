package policies

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/policy"
	"github.com/headgate-io/headgate/server/checks"
	"github.com/headgate-io/headgate/server/command"
	"github.com/headgate-io/headgate/server/events"
)

// Book has the policies of a node. It follows the records that are committed.
type Book struct {
	engine  *engine.Engine
	log     *slog.Logger
	events  *events.Log
	tallies *checks.Tallies
	// noGateways: no gateway is a trusted proxy of this node.
	noGateways bool

	// view is what checks use, and waits what is committed beyond it.
	view  atomic.Pointer[view]
	waits atomic.Uint32
	queue queue
	// making is held while the next view is made.
	making sync.Mutex

	// file is that of this node, nil for none.
	file atomic.Pointer[ownFile]
}

// view is what a node knows of policies at a time. It never changes.
type view struct {
	set *policy.Set
	// revision is the record of the last change, nil for none.
	revision []byte
	// broken are the policies whose records this node does not understand, and why.
	broken map[string]error
}

// NewBook returns the policies of e, which follows e's records from here on. Tallies
// are attached to them. With noGateways no gateway is a trusted proxy of this node: it
// takes no routes by ip. What happens is posted to ev.
func NewBook(e *engine.Engine, log *slog.Logger, noGateways bool, ev *events.Log, tallies *checks.Tallies) *Book {
	b := &Book{engine: e, log: log, events: ev, tallies: tallies, noGateways: noGateways}
	b.queue.records, b.queue.most = make(map[string][]byte), newsMost
	b.view.Store(&view{set: b.empty()})
	e.WatchPolicies(b.hear)
	e.VoidCounters(b.void)
	return b
}

// empty returns a set without policies.
func (b *Book) empty() *policy.Set { return policy.NewSet(policy.Config{Seed: b.engine.Seed()}) }

// Set returns the policies that are committed. It waits for a change that has just
// been committed to be taken over: hardly ever for longer than it takes to store a
// pointer, since the node that has made the change has staged the set. It takes longer
// on a node that has just become the leader, and for overrides.
func (b *Book) Set() *policy.Set { return b.current().set }

// current is Set as a view.
func (b *Book) current() *view {
	if b.waits.Load() != 0 {
		b.catchUp()
	}
	return b.view.Load()
}

// texts returns a set that has the texts that are committed, and perhaps not the
// last overrides: who sets many of these need not wait for a set with each.
func (b *Book) texts() *policy.Set {
	if b.waits.Load()&waitsTexts != 0 {
		b.catchUp()
	}
	return b.InForce()
}

// void is of engine.VoidCounters. It is asked with a shard locked, and so waits for
// changes of this node's own alone: whoever made one of them sees it. Those of
// others it may see a little later, as a follower does.
func (b *Book) void(key []byte, resets uint16) bool {
	if b.waits.Load()&waitsOwn != 0 {
		b.catchUp()
	}
	return b.InForce().Void(key, resets)
}

// Current is Set for callers who need not know a large change that has just been
// committed, such as a file of thousands of policies: it does not wait for that. behind
// reports that there is one. So no loop of a follower stands still.
func (b *Book) Current() (set *policy.Set, behind bool) {
	if waits := b.waits.Load(); waits == 0 {
		return b.InForce(), false
	} else if waits&waitsLong == 0 {
		b.catchUp()
	}
	behind = b.waits.Load() != 0 // before the set, which may be taken over meanwhile
	return b.InForce(), behind
}

// InForce returns the policies that were taken over last. It never waits.
func (b *Book) InForce() *policy.Set { return b.view.Load().set }

// Stats is what a Book tells of itself.
type Stats struct {
	// Policies are in force, as the change numbered Revision has left them. Overrides
	// are no changes.
	Policies int
	Revision uint64
	// FileDiffers: the policies in force are those of another file than this node's.
	FileDiffers bool
}

// Stats returns the figures of the moment.
func (b *Book) Stats() Stats {
	set, _ := b.Current()
	return Stats{Policies: len(set.Names()), Revision: set.Revision(), FileDiffers: b.fileDiffers()}
}

// DecidesAlone reports whether there is a policy by which a node answers while no
// leader does, whatever is its own.
func (b *Book) DecidesAlone() bool {
	set, _ := b.Current()
	for _, name := range set.Names() {
		if f := set.Policy([]byte(name)).OnFailure; f == policy.FailOpen || f == policy.FailLocal {
			return true
		}
	}
	return false
}

// Hide appends the positions of the values that must not be shown among pairs that
// begin at args[from]. Of a policy that this node does not know all are hidden, and
// while it does not know the last change: loops ask.
func (b *Book) Hide(name []byte, args [][]byte, from int, at []int) []int {
	set, behind := b.Current()
	p := set.Policy(name)
	if behind {
		p = nil
	}
	for i := from; i+1 < len(args); i += 2 {
		if p == nil || !p.Shows(args[i]) {
			at = append(at, i+1)
		}
	}
	return at
}

// Missing is the error for a policy that Set does not have.
func (b *Book) Missing(name []byte) string {
	if err := b.trouble(string(name)); err != nil {
		return "ERR policy '" + string(name) + "' is not understood by this node: " + err.Error()
	}
	return fmt.Sprintf("NOPOLICY there is no policy '%s'", command.Clip(name, command.ErrorClip))
}

// trouble returns why a policy's record is not understood on this node.
func (b *Book) trouble(name string) error { return b.view.Load().broken[name] }

// # Records that are committed

// record returns the committed value of a record, nil for none.
func (b *Book) record(name string) []byte {
	b.Set() // what is committed is known
	b.queue.mu.Lock()
	defer b.queue.mu.Unlock()
	return b.queue.records[name]
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
	b.queue.mu.Lock()
	value := b.queue.records[record]
	parts := partsOf(name, value, b.queue.of)
	b.queue.mu.Unlock()
	if value == nil {
		return stored{}, false
	}
	st, err := decodeStored(value)
	if err == nil {
		err = st.join(parts)
	}
	return st, err == nil
}

// versionOf returns a version of a policy that is kept.
func (b *Book) versionOf(name string, version uint64) (stored, bool) {
	if st, ok := b.stored(name); ok && st.Version == version {
		return st, true
	}
	return b.whole(name, historyRecord(name, version))
}

// names returns the names of the committed records of policies, attributes and
// lists, sorted.
func (b *Book) names() []string {
	b.Set() // what is committed is known
	b.queue.mu.Lock()
	names := slices.Collect(maps.Keys(b.queue.records))
	b.queue.mu.Unlock()
	names = slices.DeleteFunc(names, func(name string) bool { return strings.HasPrefix(name, internalPrefix) })
	slices.Sort(names)
	return names
}
