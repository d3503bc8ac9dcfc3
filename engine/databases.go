package engine

import (
	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/shard"
)

// DatabaseStats is what INFO reports about a database.
type DatabaseStats struct {
	// Keys is the number of keys, including expired ones that have not been reaped.
	Keys int
	// Expires is how many of the keys expire, and TTL is their mean time to live in ns. In
	// a table of more than sampledKeys keys, Expires and TTL are estimates.
	Expires int
	TTL     int64
}

// Plus returns the figures of two engines together.
func (s DatabaseStats) Plus(o DatabaseStats) DatabaseStats {
	if all := s.Expires + o.Expires; all > 0 {
		s.TTL = int64((float64(s.TTL)*float64(s.Expires) + float64(o.TTL)*float64(o.Expires)) / float64(all))
	}
	s.Keys += o.Keys
	s.Expires += o.Expires
	return s
}

// sampledKeys is how many keys DatabaseStats looks at. Each takes 0.1 µs.
const sampledKeys = 10_000

// DatabaseStats returns the statistics of each database. It takes up to a millisecond.
func (e *Engine) DatabaseStats(now int64) (all [algo.Databases]DatabaseStats) {
	var seen, expires [algo.Databases]int
	var ttl [algo.Databases]float64
	looked := 0
	for cursor := uint64(0); looked < sampledKeys; {
		cursor = e.table.Scan(cursor, boundedHold, func(ent shard.Entry) {
			looked++
			db := e.limits.get(ent.Meta()).Limit.DB
			if db >= algo.Databases {
				return
			}
			seen[db]++
			if at := ent.Deadline(); at != NoExpiry {
				expires[db]++
				ttl[db] += float64(max(at-now, 0))
			}
		})
		if cursor == 0 {
			break
		}
	}
	for db := range all {
		st := &all[db]
		st.Keys = e.DatabaseLen(uint8(db))
		if expires[db] > 0 {
			st.Expires = int(float64(expires[db]) / float64(seen[db]) * float64(st.Keys))
			st.TTL = int64(ttl[db] / float64(expires[db]))
		}
	}
	return all
}
