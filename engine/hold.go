package engine

import (
	"errors"
	"slices"

	"github.com/puzpuzpuz/xsync/v3"

	"github.com/headgate-io/headgate/shard"
)

// ErrNotHeld is returned to a session that holds keys for an operation on what
// is not among them: another key, or the whole table. Nothing has changed.
var ErrNotHeld = errors.New("the key is not held by this step")

// held is what a session keeps between Hold, or Join, and Unhold.
type held struct {
	active bool     // shards are locked
	whole  bool     // all of them
	joined bool     // the gate is held
	inside bool     // by a Join that Hold came after
	hashes []uint64 // of the keys that Hold names
	shards []int
	gate   *xsync.RToken
	undo   stepUndo
	// changed is what has changed in the step: see Fits.
	changed int
}

// Hold locks the shards of all keys until Unhold, so that the commands in
// between are one atomic, isolated step (EXEC, a script). Shards are locked in
// index order, as everywhere, so holders cannot deadlock. What the session is
// asked meanwhile for a key that is not in these shards, or for the whole table,
// it answers with ErrNotHeld. The keys may be of any database. What needs memory
// meanwhile does not evict them.
func (s *Session) Hold(keys [][]byte) {
	h := &s.held
	h.hashes, h.shards = h.hashes[:0], h.shards[:0]
	for _, k := range keys {
		hash := s.e.table.Hash(k)
		h.hashes = append(h.hashes, hash)
		h.shards = append(h.shards, s.e.table.Index(hash))
	}
	slices.Sort(h.shards)
	h.shards = slices.Compact(h.shards)
	s.join()
	for _, i := range h.shards {
		s.e.table.Shard(i).Lock()
	}
	h.active = true
	s.keep()
}

// HoldAll is Hold of every key there is or may be: it stops all decisions until
// Unhold. What needs memory meanwhile does not evict the keys named.
func (s *Session) HoldAll(keys [][]byte) {
	h := &s.held
	h.hashes, h.shards = h.hashes[:0], h.shards[:0]
	for _, k := range keys {
		h.hashes = append(h.hashes, s.e.table.Hash(k))
	}
	s.join()
	s.e.table.Lock()
	h.active, h.whole = true, true
	s.keep()
}

// keep has eviction leave the keys of h.hashes alone.
func (s *Session) keep() {
	for _, hash := range s.held.hashes {
		s.e.table.At(hash).Keep(hash)
	}
}

// HoldsKeys reports whether the session holds some keys, and not the whole table.
func (s *Session) HoldsKeys() bool { return s.held.active && !s.held.whole }

// HoldsAll reports whether the session holds the whole table.
func (s *Session) HoldsAll() bool { return s.held.whole }

// Holds reports whether the session holds keys, be it some or the whole table.
func (s *Session) Holds() bool { return s.held.active }

// Join begins a step like Hold's that is not isolated, and may touch any key and
// the whole table: until Unhold all that the session does is in one cut. A Hold
// within it, up to its own Unhold, is isolated.
func (s *Session) Join() {
	s.held.shards = s.held.shards[:0]
	s.join()
}

// join holds the gate, unless a Join does.
func (s *Session) join() {
	h := &s.held
	if h.inside = h.joined; !h.joined {
		h.gate = s.enterGate()
		h.joined = true
	}
}

// enterGate begins an operation on several keys, which no cut may tear;
// leaveGate ends it.
func (s *Session) enterGate() *xsync.RToken {
	if s.e.replica == nil || s.held.joined {
		return nil
	}
	return s.e.replica.gate.RLock()
}

func (s *Session) leaveGate(t *xsync.RToken) {
	if s.e.replica != nil && !s.held.joined { // t may be nil: see xsync.RBMutex.RLock
		s.e.replica.gate.RUnlock(t)
	}
}

// Unhold ends Hold, HoldAll or Join, and keeps what an undo could still take
// back: see BeginUndo.
func (s *Session) Unhold() {
	h := &s.held
	if h.undo.on {
		s.KeepAll()
	}
	if h.whole {
		for i := range s.e.table.Shards() {
			s.e.table.Shard(i).LetGo()
		}
		s.e.table.Unlock()
	}
	for _, i := range h.shards {
		s.e.table.Shard(i).LetGo()
		s.e.table.Shard(i).Unlock()
	}
	h.active, h.whole, h.shards = false, false, h.shards[:0]
	if h.inside { // the Join goes on
		h.inside = false
		return
	}
	h.joined, h.changed = false, 0
	s.leaveGate(h.gate)
}

// lock locks the shard of key, which hash is of, for an operation that may
// change the key, unless the session already holds it. Errors: ErrSealed on a
// node that does not decide now, ErrNotHeld, ErrUndoFull; the shard is not
// locked then.
func (s *Session) lock(hash uint64, key []byte) (*shard.Shard, error) {
	sh := s.e.table.At(hash)
	if !s.held.active {
		sh.Lock()
	} else if err := s.enter(hash, key); err != nil {
		return nil, err
	}
	return s.unsealed(sh)
}

// look is lock for an operation that changes nothing.
func (s *Session) look(hash uint64) (*shard.Shard, error) {
	sh := s.e.table.At(hash)
	if !s.held.active {
		sh.Lock()
	} else if !s.holds(hash) {
		return nil, ErrNotHeld
	}
	return s.unsealed(sh)
}

// unsealed returns a locked shard, unless the node does not decide now.
func (s *Session) unsealed(sh *shard.Shard) (*shard.Shard, error) {
	if s.e.sealed.Load() {
		s.unlock(sh)
		return nil, ErrSealed
	}
	return sh, nil
}

// holds reports whether the shard of a hash is among those that are held, or can
// be at once.
func (s *Session) holds(hash uint64) bool {
	if s.held.whole {
		return true
	}
	i := s.e.table.Index(hash)
	at, found := slices.BinarySearch(s.held.shards, i)
	return found || s.reach(i, at)
}

// reach holds one shard more, which belongs at place at, for a step that can be
// taken back, if nobody else has it. It uses TryLock, so a deadlock is impossible.
func (s *Session) reach(i, at int) bool {
	if !s.held.undo.on || !s.e.table.Shard(i).TryLock() {
		return false
	}
	s.held.shards = slices.Insert(s.held.shards, at, i)
	return true
}

// enter begins a change of a key within Hold.
func (s *Session) enter(hash uint64, key []byte) error {
	if !s.holds(hash) {
		return ErrNotHeld
	}
	if s.held.undo.on {
		return s.save(hash, key)
	}
	return nil
}

// Sealed reports whether sessions refuse to decide, as they do on a node that
// follows.
func (e *Engine) Sealed() bool { return e.sealed.Load() }

func (s *Session) unlock(sh *shard.Shard) {
	if !s.held.active {
		sh.Unlock()
	}
}
