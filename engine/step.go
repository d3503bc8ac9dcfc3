package engine

import (
	"errors"
	"slices"

	"github.com/puzpuzpuz/xsync/v3"

	"github.com/headgate-io/headgate/shard"
)

// ErrNotIsolated is returned within a step that isolates keys, for another key or for the
// whole table. Nothing has changed.
var ErrNotIsolated = errors.New("the key is not among those of this step")

// Step is work of a session on several keys, which replicates in one batch. While a step
// isolates keys, nobody else sees or changes them. Isolate, IsolateAll or Join begins a
// step, and Commit or Rollback ends it. In between, all operations of the session are
// part of the step. After the end, Commit and Rollback do nothing.
//
// Steps nest, and end in reverse order. Inside a step that isolates keys, an inner step
// locks nothing: it works on the keys of the outer step. Inside a Join, an inner step
// locks its own keys. Rollback undoes the changes of its own step. The outer step can
// still undo what an inner step has committed.
type Step struct {
	s     *Session // nil after the end
	now   int64
	locks bool // the step has locked shards itself
	gate  bool // the step has entered the gate
	undo  bool // the step has begun an undo
	outer savepoint
}

// stepState is what a session keeps while it is in a step.
type stepState struct {
	isolated bool // shards are locked
	whole    bool // all of them
	joined   bool // the gate is held
	hashes   []uint64
	shards   []int
	gate     *xsync.RToken
	undo     stepUndo
	// changed counts committed bytes that are no longer in any undo: see Step.Commit.
	changed int
}

// Isolate begins a step on keys, which may be of several databases. It locks the shards
// of the keys in index order, so that steps cannot deadlock. During the step, eviction
// leaves the keys alone. Session operations on the whole table, or on a key in another
// shard, return ErrNotIsolated (exception below).
//
// The parameter undo is how many bytes the step may use to remember earlier states of
// its keys. It is 0 for a step that is never rolled back. The state that exceeds undo is
// still saved, and later changes return ErrUndoFull. now is the time that Rollback uses,
// engine time in ns.
//
// Exception: a step with an undo may use keys in other shards. It then locks these
// shards too. If somebody else holds such a lock, the operation returns ErrNotIsolated.
func (s *Session) Isolate(now int64, keys [][]byte, undo int) Step {
	p := Step{s: s, now: now}
	if st := &s.step; !st.isolated {
		st.hashes, st.shards = st.hashes[:0], st.shards[:0]
		for _, k := range keys {
			hash := s.e.table.Hash(k)
			st.hashes = append(st.hashes, hash)
			st.shards = append(st.shards, s.e.table.Index(hash))
		}
		slices.Sort(st.shards)
		st.shards = slices.Compact(st.shards)
		p.join()
		for _, i := range st.shards {
			s.e.table.Shard(i).Lock()
		}
		st.isolated, p.locks = true, true
		s.keep()
	}
	p.beginUndo(undo)
	return p
}

// IsolateAll is Isolate of all keys, existing or not. It stops all decisions until the
// step ends. Eviction leaves the named keys alone meanwhile. Within a step that isolates
// only some keys, it isolates only these keys.
func (s *Session) IsolateAll(now int64, keys [][]byte, undo int) Step {
	p := Step{s: s, now: now}
	if st := &s.step; !st.isolated {
		st.hashes, st.shards = st.hashes[:0], st.shards[:0]
		for _, k := range keys {
			st.hashes = append(st.hashes, s.e.table.Hash(k))
		}
		p.join()
		s.e.table.Lock()
		st.isolated, st.whole, p.locks = true, true, true
		s.keep()
	}
	p.beginUndo(undo)
	return p
}

// keep protects the keys of the step from eviction.
func (s *Session) keep() {
	for _, hash := range s.step.hashes {
		s.e.table.At(hash).Keep(hash)
	}
}

// Join begins a step that isolates nothing, and may touch any key and the whole table. It
// cannot be rolled back. A step within it may isolate keys.
func (s *Session) Join() Step {
	p := Step{s: s}
	p.join()
	return p
}

// join enters the gate, unless an outer step holds it.
func (p *Step) join() {
	if st := &p.s.step; !st.joined {
		st.gate = p.s.enterGate()
		st.joined, p.gate = true, true
	}
}

// Commit ends the step. If the step has changed more than MaxStep, Commit rolls it back
// and returns ErrStepTooLarge. Earlier steps that committed within the same outer step
// count too. MaxStep applies only to a step with an undo. If such steps are nested, it
// applies to the outermost only.
func (p *Step) Commit() error {
	if p.s == nil {
		return nil
	}
	var err error
	if p.undo {
		if !p.outer.on {
			if err = p.s.fits(); err != nil {
				p.s.takeBack(p.now)
			}
		}
		p.s.step.undo.merge(p.outer)
	}
	p.end()
	return err
}

// Rollback ends the step and restores each key to its state when the step began, even
// beyond the memory limit. Watchers do not see the changes either. Keys that were evicted
// to make room, and not changed by the step, stay evicted. Rollback panics for a step
// without an undo.
func (p *Step) Rollback() {
	if p.s == nil {
		return
	}
	if !p.undo {
		panic("engine: rollback of a step without undo")
	}
	p.s.takeBack(p.now)
	p.s.step.undo.merge(p.outer)
	p.end()
}

// end releases the locks that the step itself has taken.
func (p *Step) end() {
	s, st := p.s, &p.s.step
	p.s = nil
	if p.locks && st.whole {
		for i := range s.e.table.Shards() {
			s.e.table.Shard(i).LetGo()
		}
		s.e.table.Unlock()
	} else if p.locks {
		for _, i := range st.shards {
			s.e.table.Shard(i).LetGo()
			s.e.table.Shard(i).Unlock()
		}
	}
	if p.locks {
		st.isolated, st.whole = false, false
	}
	if p.gate {
		st.joined, st.changed = false, 0
		s.leaveGate(st.gate)
	}
}

// Isolated reports whether the session is in a step that isolates keys.
func (s *Session) Isolated() bool { return s.step.isolated }

// IsolatedAll reports whether the session is in a step that isolates the whole table.
func (s *Session) IsolatedAll() bool { return s.step.whole }

// enterGate begins an operation on several keys, which no cut may tear. leaveGate ends
// it.
func (s *Session) enterGate() *xsync.RToken {
	if s.e.replica == nil || s.step.joined {
		return nil
	}
	return s.e.replica.gate.RLock()
}

func (s *Session) leaveGate(t *xsync.RToken) {
	if s.e.replica != nil && !s.step.joined { // t may be nil: see xsync.RBMutex.RLock
		s.e.replica.gate.RUnlock(t)
	}
}

// lock locks the shard of key for an operation that may change the key, unless the session
// already holds the shard. hash is the key's hash. After an error the shard is not locked.
// The errors are ErrSealed on a node that does not decide now, ErrNotIsolated and
// ErrUndoFull.
func (s *Session) lock(hash uint64, key []byte) (*shard.Shard, error) {
	sh := s.e.table.At(hash)
	if !s.step.isolated {
		sh.Lock()
	} else if err := s.enter(hash, key); err != nil {
		return nil, err
	}
	return s.unsealed(sh)
}

// look is lock for an operation that only reads.
func (s *Session) look(hash uint64) (*shard.Shard, error) {
	sh := s.e.table.At(hash)
	if !s.step.isolated {
		sh.Lock()
	} else if !s.includes(hash) {
		return nil, ErrNotIsolated
	}
	return s.unsealed(sh)
}

// unsealed returns a locked shard, or ErrSealed if the node does not decide now.
func (s *Session) unsealed(sh *shard.Shard) (*shard.Shard, error) {
	if s.e.sealed.Load() {
		s.unlock(sh)
		return nil, ErrSealed
	}
	return sh, nil
}

// includes reports whether the step has locked the shard of a hash, or can lock it at
// once.
func (s *Session) includes(hash uint64) bool {
	if s.step.whole {
		return true
	}
	i := s.e.table.Index(hash)
	at, found := slices.BinarySearch(s.step.shards, i)
	return found || s.reach(i, at)
}

// reach locks one more shard for a step with an undo, unless somebody else holds it. place is
// the place of the shard in the ordered list. reach uses TryLock, so a deadlock is
// impossible.
func (s *Session) reach(i, place int) bool {
	if !s.step.undo.on || !s.e.table.Shard(i).TryLock() {
		return false
	}
	s.step.shards = slices.Insert(s.step.shards, place, i)
	return true
}

// enter begins a change of a key within a step that isolates keys.
func (s *Session) enter(hash uint64, key []byte) error {
	if !s.includes(hash) {
		return ErrNotIsolated
	}
	if s.step.undo.on {
		return s.save(hash, key)
	}
	return nil
}

// Sealed reports whether sessions refuse to decide, as they do on a follower.
func (e *Engine) Sealed() bool { return e.sealed.Load() }

func (s *Session) unlock(sh *shard.Shard) {
	if !s.step.isolated {
		sh.Unlock()
	}
}

// keySet is the keys that one operation changes atomically, and the locks of their
// shards.
type keySet struct {
	shards []int
	hashes []uint64
	keys   [][]byte
	locked bool
	gate   *xsync.RToken
}

// begin empties the set and adds a key.
func (t *keySet) begin(s *Session, hash uint64, key []byte) {
	t.reset()
	t.add(s, hash, key)
}

func (t *keySet) reset() { t.shards, t.hashes, t.keys = t.shards[:0], t.hashes[:0], t.keys[:0] }

func (t *keySet) add(s *Session, hash uint64, key []byte) {
	t.shards = append(t.shards, s.e.table.Index(hash))
	t.hashes, t.keys = append(t.hashes, hash), append(t.keys, key)
}

// lock locks the shards, each once and in order, and the gate. If the session isolates
// keys, all shards must already be among its own.
func (t *keySet) lock(s *Session) error {
	slices.Sort(t.shards)
	t.shards = slices.Compact(t.shards)
	t.locked = !s.step.isolated
	if !t.locked {
		for i, hash := range t.hashes {
			if err := s.enter(hash, t.keys[i]); err != nil {
				return err
			}
		}
		return nil
	}
	t.gate = s.enterGate()
	for _, i := range t.shards {
		s.e.table.Shard(i).Lock()
	}
	return nil
}

func (t *keySet) unlock(s *Session) {
	clear(t.keys)
	if !t.locked {
		return
	}
	for _, i := range t.shards {
		s.e.table.Shard(i).Unlock()
	}
	s.leaveGate(t.gate)
	t.gate = nil
}
