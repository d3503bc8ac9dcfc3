package engine_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/engine/algo"
)

// A step that fills a small table several times over evicts others' keys. It evicts no
// key that it holds or has written; these may go afterwards.
func TestAStepEvictsNothingOfItsOwn(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine, and long under the race detector: make main runs it")
	}
	for name, begin := range map[string]func(s *engine.Session, keys [][]byte) engine.Step{
		"keys": func(s *engine.Session, keys [][]byte) engine.Step { return s.Isolate(start, keys, 0) },
		"all":  func(s *engine.Session, keys [][]byte) engine.Step { return s.IsolateAll(start, keys, 0) },
		"script": func(s *engine.Session, keys [][]byte) engine.Step {
			return s.Isolate(start, keys[:1], 1<<20)
		},
		"script of the whole table": func(s *engine.Session, keys [][]byte) engine.Step {
			return s.IsolateAll(start, keys[:1], 1<<20)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newTestSession(t, engine.Config{Shards: 1, MaxBytes: 1 << 20, Evict: true})
			for i := 0; s.Engine().Stats().Evicted < 1000; i++ {
				setText(t, s, start, fmt.Sprint("other:", i), "1", engine.NoExpiry)
			}
			const mine = 3000 // a quarter of what there is room for
			var keys [][]byte
			for i := range mine {
				keys = append(keys, fmt.Append(nil, "mine:", i))
			}
			setText(t, s, start, string(keys[0]), "1", start+minute) // of all the first to go
			step := begin(s, keys)
			for _, key := range keys[1:] {
				setText(t, s, start, string(key), "1", start+minute)
			}
			for _, key := range keys {
				require.True(t, is(s.Exists(start, key)), "%s", key)
			}
			step.Commit()
			for i := range 50_000 {
				setText(t, s, start, fmt.Sprint("after:", i), "1", engine.NoExpiry)
			}
			left := 0
			for _, key := range keys {
				if is(s.Exists(start, key)) {
					left++
				}
			}
			require.Less(t, left, mine/10)
		})
	}
}

// While data takes most of the memory, a flood of it leaves limits alone that are used to
// an eighth or more. While data takes less, a flood of limits that are hit once leaves
// data alone.
func TestDataAndLimitsShareTheMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine, and long under the race detector: make main runs it")
	}
	const flood = 60_000
	table := func() *engine.Session {
		return newTestSession(t, engine.Config{Shards: 2, MaxBytes: 2 << 20, Evict: true})
	}
	left := func(s *engine.Session, prefix string, n int) (left int) {
		for i := range n {
			if is(s.Exists(start, fmt.Append(nil, prefix, i))) {
				left++
			}
		}
		return left
	}
	hour := algo.Limit{Limit: 100, Period: 60 * minute}

	for _, ttl := range []int64{engine.NoExpiry, start + 24*60*minute} {
		s := table()
		const n = 4000
		for i := range n {
			decide(t, s, start, fmt.Sprint("used:", i), hour, 20, algo.Options{})
			decide(t, s, start, fmt.Sprint("fresh:", i), hour, 1, algo.Options{})
		}
		for i := range flood {
			setText(t, s, start, fmt.Sprint("data:", i), "1", ttl)
		}
		require.Greater(t, left(s, "used:", n), n*99/100, "a fifth of each is used")
		require.Less(t, left(s, "fresh:", n), n/10, "hardly anything of these is")
	}

	s := table()
	const n = 4000
	for i := range n {
		setText(t, s, start, fmt.Sprint("data:", i), "1", engine.NoExpiry)
	}
	for i := range flood {
		decide(t, s, start, fmt.Sprint("fresh:", i), hour, 20, algo.Options{})
	}
	require.Greater(t, left(s, "data:", n), n*99/100)
	for i := range flood {
		decide(t, s, start, fmt.Sprint("exhausted:", i), hour, 100, algo.Options{})
	}
	require.Less(t, left(s, "data:", n), n/10, "what is exhausted matters more")
}
