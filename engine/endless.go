package engine

import (
	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/shard"
)

// Endless is what a walk over the table found of counters that never expire:
// integers without a time to live, as INCR leaves them when the EXPIRE behind it
// is lost.
type Endless struct {
	Keys     int // that were looked at
	Counters int // integers among them
	Found    int // of these, without a time to live
	Sample   []EndlessCounter
}

// EndlessCounter is one of them. Key is its first 256 bytes.
type EndlessCounter struct {
	DB    uint8
	Key   []byte
	Value int64
}

// EndlessCounters looks at keys of all databases: at all of them, or, if there
// are more than look, at about that many, from where the last call ended on. The
// sample has at most most of what it finds. It locks a shard for as long as Scan
// does.
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
