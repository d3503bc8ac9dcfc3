package engine

// warmFrom is the accounted size of a table from which on looking keys up
// misses the second-level cache often enough for Warm to pay.
const warmFrom = 4 << 20

// Warm asks the processor for the states of keys that the caller is about to
// decide on, so that their cache misses overlap instead of following one
// another. It changes nothing. Cost: two short holds of each key's shard; none
// for a table that fits the caches.
func (s *Session) Warm(keys [][]byte) {
	t := s.e.table
	if t.Bytes() < warmFrom || len(keys) < 2 {
		return
	}
	s.hashes = s.hashes[:0]
	for _, k := range keys {
		h := t.Hash(k)
		s.hashes = append(s.hashes, h)
		sh := t.At(h)
		sh.Lock()
		sh.PrefetchSlot(h)
		sh.Unlock()
	}
	for _, h := range s.hashes {
		sh := t.At(h)
		sh.Lock()
		sh.PrefetchRecord(h)
		sh.Unlock()
	}
}
