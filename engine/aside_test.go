package engine

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/engine/effects"
	"github.com/headgate-io/headgate/engine/packed"
	"github.com/headgate-io/headgate/shard"
)

// A copied state stays as it was when its shard was cut, whatever becomes of the key and
// its limit before it is encoded.
func TestAsideHasTheStateOfTheCut(t *testing.T) {
	leader, follower := newNode(t, Config{Shards: 1}), newNode(t, Config{})
	leader.r.Lead(start)
	text := func(c byte) []byte { return bytes.Repeat([]byte{c}, 2*asideFrom) }
	l := algo.Limit{Algorithm: algo.Log, Limit: 1000, Period: minute}
	write := func(s *Session, c byte) {
		for i := range 20 {
			_, err := s.Set(start, fmt.Appendf(nil, "text%d", i), text(c+byte(i)), &SetOptions{})
			require.NoError(t, err)
		}
	}
	write(leader.s, 'a')
	limited := leader.e.NewSession()
	for i := range int64(1000) {
		decide(t, limited, start+i, "log", l, 1, algo.Options{})
	}
	limited.Close()

	enc := effects.NewEncoder(leader.e.limits, leader.r.formats, 1<<20, 0)
	sh := leader.e.table.Shard(0)
	sh.Lock()
	sh.Cut(func(was shard.Image, _ bool, ent shard.Entry, _ bool) {
		was.State = nil
		leader.r.cutLarge(enc, was, ent.Image())
	})
	sh.Unlock()
	require.Len(t, leader.r.aside.states, 21)
	write(leader.s, 'A')
	_, err := leader.s.Delete(start, []byte("log"))
	require.NoError(t, err)
	sh.Lock()
	sh.Cut(nil) // no undo names the limit any more
	sh.Unlock()
	for range 3 {
		leader.e.collectLimits()
	}
	require.Equal(t, 2, leader.e.limits.len())
	leader.r.aside.encode(func(was, im shard.Image) { leader.r.cutChange(enc, was, im) })
	require.Empty(t, leader.r.aside.states)
	require.NoError(t, follower.r.Apply(enc.Finish(), start))
	table := follower.e.States(start)
	require.Len(t, table, 21)
	other := newNode(t, Config{})
	other.r.Lead(start)
	write(other.s, 'a')
	for i := range int64(1000) {
		decide(t, other.s, start+i, "log", l, 1, algo.Options{})
	}
	require.Equal(t, other.e.States(start), table)
	for range 3 {
		leader.e.collectLimits()
	}
	require.Equal(t, 1, leader.e.limits.len(), "its limit is kept no longer than that")
}

// Small states are not copied, and the copies have a bound.
func TestAsideHasABound(t *testing.T) {
	e := New(Config{})
	it, err := e.limits.acquire(algo.Limit{Algorithm: algo.Counter})
	require.NoError(t, err)
	var a aside
	image := func(n int) shard.Image { return shard.Image{Key: []byte("k"), Meta: it.id, State: make([]byte, n)} }
	require.False(t, a.put(e.limits, shard.Image{}, image(asideFrom-8)))
	n := 0
	for n < asideMost>>20 && a.put(e.limits, shard.Image{}, image(1<<20)) {
		n++
	}
	require.Equal(t, asideMost>>20-1, n)
	a.encode(func(_, _ shard.Image) { n-- })
	require.Zero(t, n)
	a.encode(nil)
	require.NotNil(t, a.buf, "the next cut may have a use for it")
	a.encode(nil)
	require.Nil(t, a.buf)
}

// BenchmarkCutHolds cuts a key that has changed in 20 places. It reports how long the
// key's shard and the gate are held.
func BenchmarkCutHolds(b *testing.B) {
	for _, members := range []int{1000, 30_000} {
		b.Run(fmt.Sprint("members=", members), func(b *testing.B) {
			n := newNode(b, Config{})
			r, s := n.r, n.s
			r.Lead(start)
			at := 0
			change := func(n int) {
				v, err := s.Open(start, []byte("set"), algo.SortedSet)
				if err != nil {
					b.Fatal(err)
				}
				z := packed.NewSortedSet(v)
				for ; n > 0; n, at = n-1, at+1 {
					if _, err := z.Put(fmt.Append(nil, at), float64(at)); err != nil {
						b.Fatal(err)
					}
				}
				z.RemoveRange(0, max(z.Len()-members, 0))
				v.Close()
			}
			change(members)
			r.Cut(256 << 10)
			r.ledger.Commit()
			cuts, held := 0, time.Duration(0)
			for b.Loop() {
				b.StopTimer()
				change(20)
				enc := effects.NewEncoder(r.e.limits, r.formats, 256<<10, 0)
				b.StartTimer()
				began := time.Now()
				r.capture(enc)
				held += time.Since(began)
				r.encode(enc)
				b.StopTimer()
				r.ledger.Commit()
				cuts++
				b.StartTimer()
			}
			b.ReportMetric(float64(held.Nanoseconds())/float64(cuts), "ns/held")
		})
	}
}
