package engine

import (
	"errors"
	"sync"
	"sync/atomic"

	"github.com/puzpuzpuz/xsync/v3"

	"github.com/headgate-io/headgate/shard"
)

// ErrSealed is returned by a session of an engine whose table follows another
// node's decisions: nothing was executed, and the leader has to be asked.
var ErrSealed = errors.New("this node does not decide now")

// Replica replicates an engine's table. It decides first and replicates
// effects: sessions change the table at once and mark keys dirty; Cut collects
// the current state of every dirty key as one batch for the log; elsewhere
// Apply replaces those keys. What is cut and not yet committed can be undone.
//
// A new replica is sealed: sessions refuse to decide. Lead opens the table,
// Depose seals it again and takes back what is not committed, so that on every
// node, at any time, table = applied log prefix + own uncommitted effects.
//
// Its exported methods down to Restore are called by the log, one at a time.
type Replica struct {
	e     *Engine
	hooks Hooks

	// gate is held shared by operations on several keys and exclusively by
	// Cut, so that no cut tears them. Single-key decisions never touch it.
	gate *xsync.RBMutex

	// open is the ticket of the batch that the next Cut will take.
	open atomic.Uint64

	// epoch counts the calls of Restore.
	epoch atomic.Uint64

	// size is how many bytes the last batch had.
	size int

	// formats is what the replica may write.
	formats Formats

	applier applier

	// flushed tells that the table has been flushed since the last cut. It is
	// set with the gate and all shards held, read with the gate to itself.
	flushed bool

	discarded discarded

	// undone is how many shards a Depose under way has taken back. It changes,
	// and counts for a shard, with that shard's lock held.
	undone atomic.Int64

	// mu guards inflight, which only the log's calls change, against readers
	// beside them: Persist of a snapshot, and limitsInUndo.
	mu sync.Mutex
	// inflight are the batches cut and not committed, oldest first.
	inflight []*cut
}

// Hooks are what a Replica tells the front. They must not block.
type Hooks struct {
	// Led and Deposed report that sessions may decide from now on, and that
	// they may not; of tickets up to ticket that are not committed the
	// outcome is unknown.
	Led     func()
	Deposed func(ticket uint64)
}

// cut is one batch in flight.
type cut struct {
	seq    uint64
	undo   []shardUndo
	system systemUndo
}

// shardUndo is what one shard's dirty keys were before the batch.
type shardUndo struct {
	shard int
	undo  shard.Undo
}

// Replicate makes e a replica; it must be called before the first session.
func (e *Engine) Replicate(h Hooks) *Replica {
	r := &Replica{e: e, hooks: h, gate: xsync.NewRBMutex(), formats: firstFormats}
	r.open.Store(1)
	e.replica = r
	e.seal(true)
	return r
}

// Ticket returns the ticket under which an effect that has been decided by now
// will be committed, or an earlier one.
func (r *Replica) Ticket() uint64 { return r.open.Load() }

// Permit says what the replica may write from here on, in payloads and in
// snapshots begun later: what Formats.Check accepts.
func (r *Replica) Permit(f Formats) { r.formats = f }

// Lead opens the table for decisions; clock is the cluster clock to go on
// from.
func (r *Replica) Lead(_ uint64, clock int64) {
	e := r.e
	e.clock.Set(clock)
	for i := range e.table.Shards() {
		sh := e.table.Shard(i)
		sh.Lock()
		sh.SetJournal(true)
		sh.Unlock()
	}
	e.system.setJournal(true)
	e.seal(false)
	r.hooks.Led()
}

// Cut encodes the current state of every dirty key and system record, as one
// atomic step with respect to operations on several keys. ok is false when nothing is dirty.
func (r *Replica) Cut(seq uint64, max int) (parts [][]byte, ok bool) {
	enc := newEncoder(r.e.limits, r.formats, max, r.size+r.size/4)
	r.gate.Lock()
	// Whoever decides from here on may miss the capture of its shard, and
	// takes the next ticket.
	r.open.Add(1)
	c := &cut{seq: seq}
	whole := r.flushed && enc.flush()
	r.flushed = false
	for i := range r.e.table.Shards() {
		sh := r.e.table.Shard(i)
		sh.Lock()
		if sh.Dirty() {
			if old := sh.Pending().Contents(); old != nil && !whole {
				enc.removeAll(old)
			}
			undo := sh.Cut(func(key []byte, ent shard.Entry, present bool) {
				if present {
					enc.put(ent.Image())
				} else {
					enc.remove(key)
				}
			})
			c.undo = append(c.undo, shardUndo{i, undo})
		}
		sh.Unlock()
	}
	defer r.gate.Unlock()
	c.system = r.e.system.cut(enc.system)
	if len(c.undo) == 0 && len(c.system) == 0 {
		return nil, false
	}
	r.mu.Lock()
	r.inflight = append(r.inflight, c)
	r.mu.Unlock()
	parts = enc.finish()
	r.size = 0
	for _, p := range parts {
		r.size += len(p)
	}
	return parts, true
}

// Committed forgets how to undo the batches up to seq.
func (r *Replica) Committed(seq uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.inflight) > 0 && r.inflight[0].seq <= seq {
		for _, u := range r.inflight[0].undo {
			if c := u.undo.Contents(); c != nil {
				r.discarded.add(c)
			}
		}
		r.inflight[0] = nil
		r.inflight = r.inflight[1:]
	}
}

// Depose seals the table and takes back every effect that is not committed,
// newest first.
func (r *Replica) Depose(uint64) {
	e := r.e
	e.seal(true)
	// A session that was past its look at the seal holds its shard's lock or
	// the gate; taking both lets it finish.
	r.gate.Lock()
	ticket := r.open.Add(1) - 1
	r.flushed = false
	r.gate.Unlock()

	e.limits.collecting.Lock()
	// Only this goroutine changes inflight. It keeps the batches until the last
	// shard is undone: a snapshot that is being written takes them back too.
	batches := make([][]shard.Undo, e.table.Shards())
	for _, c := range r.inflight {
		for _, u := range c.undo {
			batches[u.shard] = append(batches[u.shard], u.undo)
		}
	}
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
	e.system.takeBack(r.systemUndos())
	r.mu.Lock()
	r.inflight = nil
	r.undone.Store(0)
	r.mu.Unlock()
	e.limits.collecting.Unlock()
	r.hooks.Deposed(ticket)
}

// systemUndos returns what the system records of the batches in flight were
// before each, the oldest first. mu must be held, or the call be the log's.
func (r *Replica) systemUndos() []systemUndo {
	undos := make([]systemUndo, len(r.inflight))
	for i, c := range r.inflight {
		undos[i] = c.system
	}
	return undos
}

// takeBack restores what the keys of one round were before it. The shard's
// lock must be held, its journal off.
func (r *Replica) takeBack(sh *shard.Shard, u shard.Undo, now int64) {
	if c := u.Contents(); c != nil {
		r.discarded.add(sh.Attach(c))
		u = sh.Cut(nil)
	}
	u.Walk(func(im shard.Image, present bool) {
		if err := r.replace(sh, r.e.table.Hash(im.Key), im, present, now); err != nil {
			// Nothing bounds a sealed table, and every image was a valid entry.
			panic("engine: undo: " + err.Error())
		}
	})
}

// replace makes the entry of im.Key what im says, or absent. hash must be the
// key's, and the shard's lock held. im.Meta is an interned limit's id; the
// entry takes a reference of its own.
func (r *Replica) replace(sh *shard.Shard, hash uint64, im shard.Image, present bool, now int64) error {
	if !present {
		if ent, ok := sh.Find(hash, im.Key); ok {
			sh.Delete(ent)
		}
		return nil
	}
	// The entry's reference is taken before Put gives up the one of the entry
	// that it replaces.
	it := r.e.limits.get(im.Meta)
	it.refs.Add(1)
	err := sh.Put(hash, im, now)
	if err != nil {
		it.refs.Add(-1)
	}
	return err
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
		if c := u.Contents(); c != nil { // its entries hold references
			c.Undo().Walk(keep)
		}
	}
	token := r.gate.RLock()
	defer r.gate.RUnlock(token)
	r.mu.Lock()
	for _, c := range r.inflight {
		for _, u := range c.undo {
			walk(u.undo)
		}
	}
	r.mu.Unlock()
	for i := range r.e.table.Shards() {
		sh := r.e.table.Shard(i)
		sh.Lock()
		walk(sh.Pending())
		sh.Unlock()
	}
	return kept
}
