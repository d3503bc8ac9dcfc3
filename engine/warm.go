package engine

// warmFrom is the accounted size of a table from which on looking keys up
// misses the second-level cache often enough for Warm to pay.
const warmFrom = 4 << 20

// Cold tells whether the table is too large for the caches, so that Warm pays.
func (s *Session) Cold() bool { return s.e.table.Bytes() >= warmFrom }

// Warm asks the processor for the states of keys that the caller is about to
// decide on, so that their cache misses overlap instead of following one
// another. It changes nothing. Cost: one short hold of each key's shard.
func (s *Session) Warm(keys [][]byte) {
	s.hashes = s.hashes[:0]
	for _, k := range keys {
		s.hashes = append(s.hashes, s.hash(k))
	}
	s.e.table.Prefetch(s.hashes)
}
