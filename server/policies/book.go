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

// Book holds the policies of a node. It follows the committed records, which are the
// replicated form of policies and overrides.
type Book struct {
	engine  *engine.Engine
	homes   *checks.Homes // nil: one group
	needed  atomic.Uint64 // the largest number that another group has confirmed
	log     *slog.Logger
	events  *events.Log
	tallies *checks.Tallies
	// noGateways is set if no gateway is a trusted proxy of this node.
	noGateways bool

	// The field view holds the policies that checks use. The field waits says which
	// committed records are not in view yet.
	view  atomic.Pointer[view]
	waits atomic.Uint32
	queue queue
	// making is locked while the next view is made.
	making sync.Mutex

	// file is this node's policy file; nil if it has none.
	file atomic.Pointer[ownFile]
}

// view is the state of the policies that a node uses at one moment. It is immutable.
type view struct {
	set *policy.Set
	// revision is the record of the last change; nil if there was none.
	revision []byte
	// number is the number of the last change; see confirm.go.
	number uint64
	// broken holds the policies whose records this node cannot read, with the reasons.
	broken map[string]error
}

// NewBook returns the policies of e, and follows e's records from then on. homes has the
// engines of all groups that count for the policies. It attaches tallies to the policies,
// and posts events to ev. noGateways says that no gateway is a trusted proxy; the node then
// does not serve routes by ip.
func NewBook(e *engine.Engine, homes *checks.Homes, log *slog.Logger, noGateways bool, ev *events.Log, tallies *checks.Tallies) *Book {
	b := &Book{engine: e, homes: homes, log: log, events: ev, tallies: tallies, noGateways: noGateways}
	b.queue.records, b.queue.most = make(map[string][]byte), newsMost
	b.view.Store(&view{set: b.empty()})
	e.WatchPolicies(b.hear)
	for _, other := range homes.Others() {
		b.follows(other)
		other.VoidCounters(b.void)
	}
	e.VoidCounters(b.void)
	return b
}

// empty returns a set without policies.
func (b *Book) empty() *policy.Set { return policy.NewSet(policy.Config{Seed: b.engine.Seed()}) }

// Set returns the committed policies. It waits until the latest committed change is in the
// view. Usually that takes no longer than storing a pointer, because the node that made the
// change has staged the next set (staged.go). It takes longer for overrides, and on a node
// that has just become the leader.
func (b *Book) Set() *policy.Set { return b.current().set }

// current does the same as Set, but returns the whole view.
func (b *Book) current() *view {
	if b.waits.Load() != 0 {
		b.catchUp()
	}
	return b.view.Load()
}

// texts returns a set with the committed texts, which may lack the latest overrides. So a
// client that sets many overrides need not wait for a new set each time.
func (b *Book) texts() *policy.Set {
	if b.waits.Load()&waitsTexts != 0 {
		b.catchUp()
	}
	return b.InForce()
}

// void implements engine.VoidCounters. The engine calls it while a shard is locked. So void
// waits only for changes made on this node, whose clients must see the effect at once. It
// may see other changes a little later, as a follower does.
func (b *Book) void(key []byte, resets uint16) bool {
	if b.waits.Load()&waitsOwn != 0 {
		b.catchUp()
	}
	return b.InForce().Void(key, resets)
}

// Current returns the committed policies, but does not wait for a large change, such as a
// file of thousands of policies. So it never blocks an event loop of a follower for long.
// The result behind says that such a change is committed, but is missing in the result
// set.
func (b *Book) Current() (set *policy.Set, behind bool) {
	if waits := b.waits.Load(); waits == 0 {
		return b.InForce(), false
	} else if waits&waitsLong == 0 {
		b.catchUp()
	}
	behind = b.waits.Load() != 0 // read waits before the set, because the set may be replaced meanwhile
	return b.InForce(), behind
}

// InForce returns the policies of the present view. It never waits.
func (b *Book) InForce() *policy.Set { return b.view.Load().set }

// Stats holds figures of a Book.
type Stats struct {
	// Policies is the number of policies in force after the change with number Revision.
	// Overrides have no revision.
	Policies int
	Revision uint64
	// FileDiffers reports that the policies in force come from another file than this
	// node's.
	FileDiffers bool
}

// Stats returns the current figures.
func (b *Book) Stats() Stats {
	set, _ := b.Current()
	return Stats{Policies: len(set.Names()), Revision: set.Revision(), FileDiffers: b.fileDiffers()}
}

// DecidesAlone reports whether on_failure of a policy makes this node answer without a
// leader, even if the node's own on-failure is closed.
func (b *Book) DecidesAlone() bool {
	set, _ := b.Current()
	for _, name := range set.Names() {
		if f := set.Policy([]byte(name)).OnFailure; f == policy.FailOpen || f == policy.FailLocal {
			return true
		}
	}
	return false
}

// Hide appends the positions of secret values to dst, and returns the slice. The
// pairs of names and values begin at args[from]. If this node does not know the policy or
// the latest change, Hide appends the positions of all values, because event loops cannot
// wait.
func (b *Book) Hide(name []byte, args [][]byte, from int, dst []int) []int {
	set, behind := b.Current()
	p := set.Policy(name)
	if behind {
		p = nil
	}
	for i := from; i+1 < len(args); i += 2 {
		if p == nil || !p.Shows(args[i]) {
			dst = append(dst, i+1)
		}
	}
	return dst
}

// Missing returns the error for a policy that Set does not contain.
func (b *Book) Missing(name []byte) string {
	if err := b.trouble(string(name)); err != nil {
		return "ERR policy '" + string(name) + "' cannot be read by this node: " + err.Error()
	}
	return fmt.Sprintf("NOPOLICY there is no policy '%s'", command.Clip(name, command.ErrorClip))
}

// trouble returns why this node cannot read a policy's record; nil if it can.
func (b *Book) trouble(name string) error { return b.view.Load().broken[name] }

// # Committed records

// record returns the committed value of a record; nil if there is none.
func (b *Book) record(name string) []byte {
	b.Set() // waits until the committed records are in the view
	b.queue.mu.Lock()
	defer b.queue.mu.Unlock()
	return b.queue.records[name]
}

// stored returns the committed record of a name, with its text.
func (b *Book) stored(name string) (st stored, ok bool) { return b.whole(name, name) }

// head returns a version's record, without the text if the text is in parts.
func (b *Book) head(record string) (st stored, ok bool) {
	value := b.record(record)
	if value == nil {
		return stored{}, false
	}
	st, err := decodeStored(value)
	return st, err == nil
}

// whole returns a version's record with its complete text.
func (b *Book) whole(name, record string) (st stored, ok bool) {
	b.Set() // waits until the committed records are in the view
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

// versionOf returns a kept version of a policy.
func (b *Book) versionOf(name string, version uint64) (stored, bool) {
	if st, ok := b.stored(name); ok && st.Version == version {
		return st, true
	}
	return b.whole(name, historyRecord(name, version))
}

// names returns the names of the committed records of policies, attributes and lists,
// sorted.
func (b *Book) names() []string {
	b.Set() // waits until the committed records are in the view
	b.queue.mu.Lock()
	names := slices.Collect(maps.Keys(b.queue.records))
	b.queue.mu.Unlock()
	names = slices.DeleteFunc(names, func(name string) bool { return strings.HasPrefix(name, internalPrefix) })
	slices.Sort(names)
	return names
}
