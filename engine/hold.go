package engine

import (
	"slices"

	"github.com/puzpuzpuz/xsync/v3"

	"github.com/headgate-io/headgate/shard"
)

// held is what a session keeps between Hold, or Join, and Unhold.
type held struct {
	active bool // shards are locked
	joined bool // the gate is held
	shards []int
	gate   *xsync.RToken
}

// Hold locks the shards of all keys until Unhold, so that the commands in
// between are one atomic, isolated step (EXEC). Shards are locked in index
// order, as everywhere, so holders cannot deadlock. While it holds, a session
// may only touch the keys it named; operations on the whole table would wait
// for themselves.
func (s *Session) Hold(keys [][]byte) {
	h := &s.held
	h.shards = h.shards[:0]
	for _, k := range keys {
		h.shards = append(h.shards, s.e.table.Index(s.e.table.Hash(k)))
	}
	slices.Sort(h.shards)
	h.shards = slices.Compact(h.shards)
	h.gate = s.enterGate()
	for _, i := range h.shards {
		s.e.table.Shard(i).Lock()
	}
	h.active, h.joined = true, true
}

// Join begins a step like Hold's that is not isolated, and may touch any key and
// the whole table: until Unhold all that the session does is in one cut.
func (s *Session) Join() {
	s.held.shards = s.held.shards[:0]
	s.held.gate = s.enterGate()
	s.held.joined = true
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

// Unhold ends Hold or Join.
func (s *Session) Unhold() {
	s.held.active, s.held.joined = false, false
	for _, i := range s.held.shards {
		s.e.table.Shard(i).Unlock()
	}
	s.leaveGate(s.held.gate)
}

// lock locks shard i unless the session already holds it, and returns it. ok
// is false on a node that does not decide now; the shard is not locked then.
func (s *Session) lock(i int) (sh *shard.Shard, ok bool) {
	sh = s.e.table.Shard(i)
	if !s.held.active {
		sh.Lock()
	}
	if s.e.sealed.Load() {
		s.unlock(sh)
		return nil, false
	}
	return sh, true
}

// Sealed tells whether sessions refuse to decide, as they do on a node that
// follows.
func (e *Engine) Sealed() bool { return e.sealed.Load() }

func (s *Session) unlock(sh *shard.Shard) {
	if !s.held.active {
		sh.Unlock()
	}
}
