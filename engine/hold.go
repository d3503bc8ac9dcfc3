package engine

import (
	"slices"

	"github.com/headgate-io/headgate/shard"
)

// held is the set of shards a session keeps locked between Hold and Unhold.
type held struct {
	active bool
	shards []int
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
	for _, i := range h.shards {
		s.e.table.Shard(i).Lock()
	}
	h.active = true
}

// Unhold ends Hold.
func (s *Session) Unhold() {
	s.held.active = false
	for _, i := range s.held.shards {
		s.e.table.Shard(i).Unlock()
	}
}

// lock locks shard i unless the session already holds it, and returns it.
func (s *Session) lock(i int) *shard.Shard {
	sh := s.e.table.Shard(i)
	if !s.held.active {
		sh.Lock()
	}
	return sh
}

func (s *Session) unlock(sh *shard.Shard) {
	if !s.held.active {
		sh.Unlock()
	}
}
