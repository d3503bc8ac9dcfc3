package engine

import (
	"errors"
	"sync/atomic"

	"github.com/puzpuzpuz/xsync/v3"

	"github.com/headgate-io/headgate/engine/effects"
	"github.com/headgate-io/headgate/ledger"
	"github.com/headgate-io/headgate/shard"
)

// ErrSealed is returned by a session if this node's table follows another node's
// decisions. Nothing was executed; ask the leader.
var ErrSealed = errors.New("this node does not decide now")

// Replica replicates an engine's table. The leader decides first, and replicates the
// effects. Its sessions change the table at once and mark the changed keys dirty. Cut
// collects the states of all dirty keys as one batch for the log. On other nodes, Apply
// replaces the states of these keys. A batch that is not committed yet can be undone,
// because the ledger keeps the old states. The comment of package
// ledger describes the steps from a decision to its reply.
//
// A new replica is sealed: sessions refuse to decide. Lead lets them decide. Depose
// seals the replica again, and undoes what is not committed. So on every node and at any
// time, the table is what the log has applied, plus the node's own uncommitted changes.
//
// The log calls Permit, Lead, Cut, Committed, Depose, Apply, Snapshot and Restore one at a
// time. It may call Now at any time.
type Replica struct {
	e      *Engine
	ledger *ledger.Ledger

	// gate is held shared by operations on several keys, and exclusively by Cut. So a cut
	// contains such an operation as a whole or not at all. Decisions on a single key do not
	// take the gate.
	gate *xsync.RBMutex

	// epoch counts the calls of Restore.
	epoch atomic.Uint64

	// size is how many bytes the last batch had.
	size int

	// formats are the formats that the replica may write.
	formats effects.Formats

	applier applier
	changer effects.Changer
	aside   aside

	// applied has the records of policies that the current batch has changed.
	applied []PolicyRecord

	// given is a time that is not earlier than the clock of any batch so far.
	given atomic.Int64

	// snapshotEnd is the clock up to which the restored snapshot may already include deltas
	// of the log. When the log replays such a delta, the key's state was made by this delta
	// or by a later effect.
	snapshotEnd int64

	// flushed is set if the table has been flushed since the last cut. Code that writes
	// flushed holds the gate and all shards. Code that reads it holds the gate exclusively.
	flushed bool

	discarded discarded

	// undone is how many shards the last Depose has undone; Lead sets it to 0. It changes
	// under the lock of the shard that is undone. To know whether a shard is undone, read
	// it under that shard's lock.
	undone atomic.Int64
}

// undo is what is needed to undo a flight.
type undo struct {
	r      *Replica
	shards []shardUndo
	system systemUndo
	// policies are the new values of the records of policies that it changed.
	policies []PolicyRecord
}

// undoOf returns the undo of a flight; that of a tick is empty.
func undoOf(f *ledger.Flight) *undo {
	if u, ok := f.Undo.(*undo); ok {
		return u
	}
	return &undo{}
}

// Committed implements ledger.Undo.
func (u *undo) Committed() {
	for _, s := range u.shards {
		if c := s.undo.Contents(); c != nil {
			u.r.discarded.add(c)
		}
	}
	u.r.e.publish(u.policies, false)
}

// shardUndo is the state of one shard's dirty keys before the batch.
type shardUndo struct {
	shard int
	undo  shard.Undo
}

// Replicate makes e a replica that accounts for its cuts in l. Call it before the first
// session.
func (e *Engine) Replicate(l *ledger.Ledger) *Replica {
	r := &Replica{e: e, ledger: l, gate: xsync.NewRBMutex(), formats: effects.FirstFormats}
	e.replica = r
	e.seal(true)
	return r
}

// Permit sets the formats in which the replica may write payloads, and snapshots begun
// later: those that Formats.Check accepts.
func (r *Replica) Permit(f effects.Formats) { r.formats = f }

// Lead opens the table for decisions; clock is the cluster clock to go on from.
func (r *Replica) Lead(clock int64) {
	e := r.e
	e.clock.Set(clock)
	r.give(clock)
	r.undone.Store(0)
	for i := range e.table.Shards() {
		sh := e.table.Shard(i)
		sh.Lock()
		sh.SetJournal(true)
		sh.Unlock()
	}
	e.system.setJournal(true)
	e.reign.Add(1)
	e.seal(false)
}

// Cut encodes the current state of every dirty key and system record, and puts it into
// the ledger. It is atomic with respect to operations on several keys. ok is false if
// nothing is dirty.
func (r *Replica) Cut(max int) (parts [][]byte, ok bool) {
	enc := effects.NewEncoder(r.e.limits, r.formats, max, r.size+r.size/4)
	if !r.capture(enc) {
		return nil, false
	}
	return r.encode(enc), true
}

// capture is the atomic step of a cut: it encodes or copies what is dirty. Copies are
// encoded after the gate and the shards are released. It returns false if nothing is
// dirty.
func (r *Replica) capture(enc *effects.Encoder) bool {
	r.gate.Lock()
	defer r.gate.Unlock()
	// A decision from here on may miss the capture of its shard. It counts as part of the
	// next cut.
	cut := r.ledger.Begin()
	u := &undo{r: r}
	if r.flushed {
		enc.Flush()
	}
	r.flushed = false
	for i := range r.e.table.Shards() {
		sh := r.e.table.Shard(i)
		sh.Lock()
		if sh.Dirty() {
			before := sh.Cut(func(was shard.Image, existed bool, ent shard.Entry, present bool) {
				switch {
				case !present:
					enc.Remove(was.Space, was.Key)
				case ent.Words() >= effects.LeastDelta/8:
					if !existed {
						was.State = nil
					}
					r.cutLarge(enc, was, ent.Image())
				default:
					enc.Put(ent.Image())
				}
			})
			u.shards = append(u.shards, shardUndo{i, before})
		}
		sh.Unlock()
	}
	u.system = r.e.system.cut(func(k effects.SystemKey, value []byte) {
		enc.System(k, value)
		if k.Kind == effects.SystemPolicy {
			u.policies = append(u.policies, PolicyRecord{k.Name, value})
		}
	})
	if enc.Empty() && r.aside.empty() {
		// A flush that found no key, and needs no record, leaves empty contents and
		// nothing to send. A flight without an entry would never be committed.
		r.ledger.Empty(cut)
		u.Committed()
		return false
	}
	// Inside the gate: a snapshot must find the undo records that have left the shards.
	r.ledger.Add(cut, u)
	return true
}

// encode ends a cut: it encodes the copied states.
func (r *Replica) encode(enc *effects.Encoder) (parts [][]byte) {
	r.aside.encode(func(was, im shard.Image) { r.cutChange(enc, was, im) })
	r.changer.Tidy()
	parts = enc.Finish()
	r.ledger.Encoded(parts)
	r.size = 0
	for _, p := range parts {
		r.size += len(p)
	}
	return parts
}

// Now returns the engine's time, for the batch of the last cut.
func (r *Replica) Now() int64 {
	now := r.e.Now()
	r.give(now)
	return now
}

// Committed tells the replica the clock of the last of its own batches that is fully
// committed.
func (r *Replica) Committed(clock int64) { r.e.table.Pass(clock) }

// Depose seals the table and undoes every effect that is not committed, newest first. The
// ledger keeps the flights meanwhile: a snapshot that is being written uses them for the
// shards that are not yet undone.
func (r *Replica) Depose() {
	e := r.e
	e.seal(true)
	// A session that has passed the check of the seal holds its shard's lock or the gate.
	// Taking both waits for it.
	r.gate.Lock()
	r.flushed = false
	r.gate.Unlock()

	e.limits.collecting.Lock()
	defer e.limits.collecting.Unlock()
	batches := make([][]shard.Undo, e.table.Shards())
	var system []systemUndo
	r.ledger.Flights(func(flights []ledger.Flight) {
		for i := range flights {
			u := undoOf(&flights[i])
			system = append(system, u.system)
			for _, s := range u.shards {
				batches[s.shard] = append(batches[s.shard], s.undo)
			}
		}
	})
	now := e.clock.Now()
	for i := range batches {
		sh := e.table.Shard(i)
		sh.Lock()
		undos := append(batches[i], sh.Cut(nil))
		sh.SetJournal(false)
		for j := len(undos) - 1; j >= 0; j-- {
			r.takeBack(sh, undos[j], now)
		}
		r.undone.Store(int64(i + 1))
		sh.Unlock()
	}
	e.system.takeBack(system)
}

// takeBack restores the keys of one round to their state before it. The shard's lock must
// be held, its journal off.
func (r *Replica) takeBack(sh *shard.Shard, u shard.Undo, now int64) {
	if c := u.Contents(); c != nil {
		r.discarded.add(sh.Attach(c))
		u = sh.Cut(nil)
	}
	u.Walk(func(im shard.Image, present bool) {
		r.e.restore(sh, r.e.hash(im.Space, im.Key), im, present, now)
	})
}

// hash returns the hash of a key of a database.
func (e *Engine) hash(db uint8, key []byte) uint64 {
	return e.table.Hash(key) ^ shard.SpaceMask(db)
}

// restore gives im.Key the state of im, or makes it absent, even beyond the memory limit.
// hash must be the key's, and the shard locked. im.Meta is the id of an interned limit,
// to which the entry takes a reference.
func (e *Engine) restore(sh *shard.Shard, hash uint64, im shard.Image, present bool, now int64) {
	if !present {
		if ent, ok := sh.Find(hash, im.Key); ok {
			sh.Delete(ent)
		}
		return
	}
	// Take the entry's reference first: Restore releases that of the entry it replaces.
	e.limits.get(im.Meta).refer(sh)
	sh.Restore(hash, im, now)
}

// limitsInUndo returns the ids of the limits that undo records name.
func (r *Replica) limitsInUndo() map[uint32]bool {
	kept := make(map[uint32]bool)
	keep := func(im shard.Image, present bool) {
		if present {
			kept[im.Meta] = true
		}
	}
	walk := func(u shard.Undo) {
		u.Walk(keep)
		if c := u.Contents(); c != nil { // entries of contents hold references
			c.Undo().Walk(keep)
		}
	}
	token := r.gate.RLock()
	defer r.gate.RUnlock(token)
	r.ledger.Flights(func(flights []ledger.Flight) {
		for i := range flights {
			for _, u := range undoOf(&flights[i]).shards {
				if int(r.undone.Load()) <= u.shard {
					walk(u.undo)
				}
			}
		}
	})
	for i := range r.e.table.Shards() {
		sh := r.e.table.Shard(i)
		sh.Lock()
		walk(sh.Pending())
		sh.Unlock()
	}
	return kept
}
