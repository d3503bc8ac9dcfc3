package raftlog

import (
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/raft"

	"github.com/headgate-io/headgate/internal/boottime"
	"github.com/headgate-io/headgate/ledger"
	"github.com/headgate-io/headgate/raftlog/clock"
)

// fsm is what Raft sees of the machine (Raft calls it a finite state machine). It
// decides which entries count, and assembles batches from their parts. It makes all
// calls of the machine, one after the other.
//
// The log alone determines which entries count, so all nodes and all replays agree:
//
//  1. An entry counts only if the term in its header is the term in which Raft stored
//     the entry. A leader may lose leadership and win it again while one of its batches
//     is on the way. That batch was decided on a state that no longer exists.
//  2. Within a term, parts and batches count only in unbroken order, beginning with
//     batch 1 part 0.
//  3. A batch counts when its last part counts. The first entry of a later term drops an
//     incomplete batch.
type fsm struct {
	machine  Machine
	group    uint32
	node     string
	log      *slog.Logger
	fatal    func(error) // does not block and may be called with mu held
	ledger   *ledger.Ledger
	observe  func()       // called with mu held after a change of serving; does not block
	retune   func()       // called before a snapshot
	resumed  func() int64 // the clock to continue from if no leader has been heard since the start
	now      func() int64 // boottime.Now
	features []Formats

	// noteLevel stores a level that the node has seen, before the node acts on it. It is
	// called with mu held.
	noteLevel func(level uint32) error

	// arrived returns when a new entry came. restored returns the last entry of a
	// snapshot that is being restored.
	arrived  func(index uint64) (at int64, ok bool)
	restored func() (index uint64)

	// Other goroutines read these fields without waiting for the machine. They are written
	// while mu is held.
	serving atomic.Uint64 // term being served, 0 = none
	last    atomic.Uint64 // last entry that the machine has; some entries never reach the fsm
	fenced  atomic.Uint64 // entries dropped by rules 1 and 2
	clock   atomic.Int64  // cursor.clock
	bound   atomic.Pointer[clock.Bound]
	level   atomic.Uint32 // cursor.level

	membership atomic.Uint64 // index of the last committed membership

	// mu serialises every call of the machine except Now. It guards the fields below.
	mu     sync.Mutex
	served uint64 // highest term ever served; no term is served twice
	lost   uint64 // the last term served, while the outcome of its batches is not known; or 0
	failed error  // set: the machine must not be called any more
	wanted uint32 // level that this node, serving, proposes; 0 = none

	// cursor is the position in the stream of batches. Snapshots include it.
	cursor cursor
}

// cursor says which batch is expected next, and holds the parts of an incomplete batch.
type cursor struct {
	term  uint64
	batch uint64   // last complete batch of the term
	parts [][]byte // of the batch after it
	clock int64    // highest clock seen
	level uint32   // of the cluster's features: see Config.Features
}

func newFSM(c *Config, m Machine, resumed func() int64) *fsm {
	f := &fsm{
		machine: m, group: c.GroupID, node: c.NodeID, log: c.Logger, ledger: c.Ledger, resumed: resumed, now: boottime.Now,
		arrived:  func(uint64) (at int64, ok bool) { return 0, false },
		restored: func() uint64 { return 0 },
		features: c.Features, noteLevel: func(uint32) error { return nil },
		cursor: cursor{level: firstLevel},
	}
	f.level.Store(firstLevel)
	m.Permit(firstLevel)
	return f
}

var _ raft.BatchingFSM = (*fsm)(nil)

// Apply implements raft.FSM.
func (f *fsm) Apply(l *raft.Log) any {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.entry(l)
	return nil
}

// ApplyBatch implements raft.BatchingFSM. It also gets configuration entries. So Raft can
// advance the index of the next snapshot even on a cluster without other entries.
func (f *fsm) ApplyBatch(logs []*raft.Log) []any {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, l := range logs {
		f.entry(l)
	}
	return make([]any, len(logs))
}

// entry handles one committed entry. The caller holds mu.
func (f *fsm) entry(l *raft.Log) {
	if f.failed != nil {
		return
	}
	defer f.last.Store(l.Index)
	if term := f.serving.Load(); term != 0 && l.Term != term {
		if l.Term < term {
			f.fail(fmt.Errorf("%w: entry %d of term %d after the barrier of term %d", ErrInvariant, l.Index, l.Term, term))
			return
		}
		// A later leader's entry can arrive before the notice that leadership is lost.
		f.depose()
	}
	if f.lost != 0 && l.Term > f.lost { // no entry of the lost term follows
		f.lost = 0
		f.ledger.Undone()
	}
	if l.Type == raft.LogConfiguration {
		f.membership.Store(l.Index)
	}
	if l.Type != raft.LogCommand {
		return
	}
	h, payload, err := decodeEntry(l.Data)
	if err == nil && h.group != f.group {
		err = fmt.Errorf("%w: entry of group %d in the log of group %d", ErrCorrupt, h.group, f.group)
	}
	if err != nil {
		f.fail(fmt.Errorf("entry %d: %w", l.Index, err))
		return
	}
	f.accept(l, h, payload)
}

// accept applies rules 1 to 3 of the type fsm. The caller holds mu.
func (f *fsm) accept(l *raft.Log, h header, payload []byte) {
	if h.term != l.Term {
		f.drop(l, h, "decided in another term")
		return
	}
	serving := f.serving.Load() == l.Term
	if serving && h.node != f.node {
		f.fail(fmt.Errorf("%w: node %s and this one both lead term %d (entry %d)", ErrInvariant, h.node, l.Term, l.Index))
		return
	}
	c := &f.cursor
	if h.term > c.term {
		c.term, c.batch, c.parts = h.term, 0, nil
	}
	if h.term < c.term || h.batch != c.batch+1 || h.part != uint64(len(c.parts)) {
		if serving {
			f.fail(fmt.Errorf("%w: own batch %d part %d committed where batch %d part %d was expected", ErrInvariant, h.batch, h.part, c.batch+1, len(c.parts)))
			return
		}
		f.drop(l, h, "out of order")
		return
	}
	c.clock = max(c.clock, h.clock)
	f.clock.Store(c.clock)
	if at, ok := f.arrived(l.Index); ok {
		f.bound.Store(f.bound.Load().Heard(c.term, c.clock, at))
	}
	c.parts = append(c.parts, payload)
	if !h.last() {
		return
	}
	b := Batch{Index: l.Index, Term: h.term, Number: h.batch, Clock: c.clock, Payloads: c.parts}
	if h.parts == 1 && len(payload) == 0 {
		b.Payloads = nil
	}
	c.batch, c.parts = h.batch, nil
	if h.level > c.level {
		if err := f.reach(h.level); err != nil {
			f.fail(fmt.Errorf("entry %d: %w", l.Index, err))
			return
		}
		f.log.Info("the cluster has another feature level", "level", h.level)
	}
	if serving {
		if !f.ledger.Commit() {
			f.fail(fmt.Errorf("%w: own batch %d committed that is not in flight", ErrInvariant, h.batch))
			return
		}
		f.machine.Committed(c.clock)
		return
	}
	if err := f.machine.Apply(b); err != nil {
		f.fail(fmt.Errorf("apply entry %d: %w", l.Index, err))
		return
	}
	if h.term == f.lost && !f.ledger.Survived() {
		f.fail(fmt.Errorf("%w: own batch %d committed that was not in flight", ErrInvariant, h.batch))
	}
}

// drop ignores an entry that does not count, and says why. The caller holds mu.
func (f *fsm) drop(l *raft.Log, h header, why string) {
	f.fenced.Add(1)
	f.log.Warn("log entry dropped on all nodes", "index", l.Index, "term", l.Term, "from", h.node, "decided_in", h.term, "batch", h.batch, "part", h.part, "reason", why)
}

// fail ends the use of the machine. The caller holds mu.
func (f *fsm) fail(err error) {
	if f.failed != nil {
		return
	}
	f.depose()
	f.forget()
	f.failed = err
	f.fatal(err)
}

// depose stops the machine from deciding, if it serves. The caller holds mu.
func (f *fsm) depose() {
	if f.serving.Load() == 0 {
		return
	}
	f.lost = f.serving.Swap(0)
	f.wanted = 0
	f.machine.Depose()
	f.ledger.Depose()
	f.observe()
}

// forget gives up the batches of a lost term: this node will not know their outcome. The
// caller holds mu.
func (f *fsm) forget() {
	f.lost = 0
	f.ledger.Forget()
}

// settle waits until the operation in progress is over. Others can see the end of a term
// before the machine is deposed. After settle, the machine is deposed too.
func (f *fsm) settle() {
	f.mu.Lock()
	defer f.mu.Unlock()
}

// stop deposes the machine. If err is set, the machine is not called afterwards.
func (f *fsm) stop(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.depose()
	if f.failed == nil {
		f.failed = err
	}
	if f.failed != nil {
		f.forget()
	}
}

// lead makes the machine decide in a term, if stillLeader returns true. It calls
// stillLeader while it holds mu, so that no other event comes between.
func (f *fsm) lead(term uint64, stillLeader func() bool) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.failed != nil || term <= f.served || !stillLeader() {
		return false
	}
	f.served = term
	clock := f.cursor.clock
	if b := f.bound.Load(); b != nil && !b.Saved() {
		clock = max(clock, b.At(f.now()))
	} else {
		clock = max(clock, f.resumed())
	}
	f.lost = 0
	f.ledger.Lead()
	f.serving.Store(term)
	f.machine.Lead(clock)
	f.observe()
	f.ledger.Ring() // propose a batch at once, even an empty one: followers still use an earlier leader's clock
	return true
}

// ownBatch is a batch that this node has cut, to be proposed.
type ownBatch struct {
	term, batch uint64
	clock       int64
	level       uint32 // the cluster's level from this batch on
	version     byte   // of its entries
	parts       [][]byte
}

// cut takes the next batch from the machine. Without effects, it returns an empty batch if
// tick is set, if the batch is the first of its term, or if it raises the level. ok is
// false if there is nothing to propose, if too much is in flight, or if this node does not
// decide.
func (f *fsm) cut(max int, tick bool) (b ownBatch, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	term := f.serving.Load()
	flights, bytes := f.ledger.InFlight()
	if term == 0 || full(flights, bytes) {
		return ownBatch{}, false
	}
	level, raises := f.nextLevel()
	// All batches that count in this term are from this leader.
	batch := uint64(flights) + 1
	if f.cursor.term == term {
		batch += f.cursor.batch
	}
	parts, dirty := f.machine.Cut(max)
	if !dirty {
		if !tick && batch > 1 && !raises {
			return ownBatch{}, false
		}
		parts = [][]byte{nil}
		f.ledger.Tick()
	}
	return ownBatch{term: term, batch: batch, clock: f.machine.Now(), level: level, version: f.formats().Entry, parts: parts}, true
}

// full reports whether no further batch may be cut.
func full(flights, bytes int) bool { return flights >= maxInflightBatches || bytes >= maxInflightBytes }

// Snapshot implements raft.FSM.
func (f *fsm) Snapshot() (raft.FSMSnapshot, error) {
	f.retune()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.failed != nil {
		return nil, f.failed
	}
	s, err := f.machine.Snapshot()
	if err != nil {
		return nil, err
	}
	return &snapshot{state: s, header: snapshotHeader{f.group, f.cursor}.append(nil, f.formats().Snapshot)}, nil
}

// Restore implements raft.FSM. If it fails half-way, nothing can be applied afterwards.
func (f *fsm) Restore(rc io.ReadCloser) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.failed != nil {
		return f.failed
	}
	f.depose()
	f.forget() // the snapshot does not tell which batches it has
	h, r, err := readSnapshotHeader(rc, f.group)
	if err == nil {
		err = f.reach(h.cursor.level)
	}
	if err == nil {
		err = f.machine.Restore(r, h.cursor.clock)
	}
	if err != nil {
		err = fmt.Errorf("restore snapshot: %w", err)
		f.fail(err)
		return err
	}
	h.cursor.level = f.cursor.level // the level read from disk may be higher than the snapshot's
	f.cursor = h.cursor
	f.clock.Store(h.cursor.clock)
	f.restoredTo(f.restored())
	return nil
}

// restoredTo notes that the machine has the state of a snapshot, which includes all entries
// up to index.
func (f *fsm) restoredTo(index uint64) {
	for {
		last := f.last.Load()
		if last >= index || f.last.CompareAndSwap(last, index) {
			return
		}
	}
}

// clockNow returns a lower bound of the cluster clock, and the term of the leader that
// keeps this clock. ok is false until this node has such a bound. It has one when it has
// applied an entry that was new on arrival, not one of an earlier time that was sent again.
// It also has one if it has saved the clock since the machine's last boot.
func (f *fsm) clockNow() (clock int64, term uint64, ok bool) {
	b := f.bound.Load()
	if b == nil {
		return 0, 0, false
	}
	return max(f.clock.Load(), b.At(f.now())), b.Term(), true
}

// syncedFSM passes committed entries to the fsm only after this node has synced them.
type syncedFSM struct {
	*fsm
	log interface{ Await(index uint64) error } // a disk.Log
}

var _ raft.BatchingFSM = syncedFSM{}

// Apply implements raft.FSM.
func (s syncedFSM) Apply(l *raft.Log) any {
	s.pass(l.Index)
	return s.fsm.Apply(l)
}

// ApplyBatch implements raft.BatchingFSM.
func (s syncedFSM) ApplyBatch(logs []*raft.Log) []any {
	s.pass(logs[len(logs)-1].Index)
	return s.fsm.ApplyBatch(logs)
}

// pass waits until the entries up to index are synced. If that fails, the fsm takes no
// more entries.
func (s syncedFSM) pass(index uint64) {
	if err := s.log.Await(index); err != nil {
		s.fsm.stop(err)
	}
}
