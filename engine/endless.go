package engine

import (
	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/shard"
)

// Endless is what a walk over the table has found of counters that never expire: integers
// without a time to live. INCR leaves such a counter if the EXPIRE after it is lost.
type Endless struct {
	Keys     int // keys looked at
	Counters int // integers among them
	Found    int // counters without a time to live
	Sample   []EndlessCounter
}

// EndlessCounter is one such counter. Key is its first 256 bytes.
type EndlessCounter struct {
	DB    uint8
	Key   []byte
	Value int64
}

// EndlessCounters looks at about look keys of all databases, or at all keys if there are
// fewer. It goes on where the last call ended. The sample holds at most most counters. A
// shard is locked for as long as in Scan.
func (e *Engine) EndlessCounters(look, most int) Endless {
	var found Endless
	now, cursor, around := e.Now(), uint64(0), false
	if e.Len() > look {
		cursor = e.endlessAt.Load()
		around = cursor != 0
	}
	for looked := 0; looked < look; {
		cursor = e.table.Scan(cursor, boundedHold, func(ent shard.Entry) {
			looked++
			if !ent.Expired(now) {
				found.add(e, ent, most)
			}
		})
		if cursor == 0 {
			if !around {
				break
			}
			around = false
		}
	}
	e.endlessAt.Store(cursor)
	return found
}

// add looks at a live key.
func (f *Endless) add(e *Engine, ent shard.Entry, most int) {
	f.Keys++
	l := &e.limits.get(ent.Meta()).Limit
	if l.Algorithm != algo.Counter || ent.Words() != 1 {
		return
	}
	f.Counters++
	if ent.Deadline() != NoExpiry {
		return
	}
	f.Found++
	if len(f.Sample) < most {
		f.Sample = append(f.Sample, EndlessCounter{l.DB, clip(nil, ent.Key()), int64(ent.Word(0))})
	}
}
