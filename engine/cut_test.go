package engine_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/engine/effects"
	"github.com/headgate-io/headgate/engine/effects/effectstest"
)

// keyOf returns a key of shard i.
func (n *node) keyOf(i int) []byte {
	for j := 0; ; j++ {
		if key := fmt.Appendf(nil, "key:%d", j); n.e.Table().Index(n.e.Table().Hash(key)) == i {
			return key
		}
	}
}

// cutting begins a cut in another goroutine, which waits before shard i until
// resume, and returns once it is under way.
func (n *node) cutting(t *testing.T, i int) (resume func() [][]byte) {
	sh := n.e.Table().Shard(i)
	sh.Lock()
	seq := n.l.Open()
	parts := make(chan [][]byte, 1)
	go func() { parts <- n.cut() }()
	// It takes its number first. Without that, or if it is slow to get to shard i, the
	// test finds less, but nothing wrong.
	deadline := time.Now().Add(time.Second)
	for n.l.Open() == seq && time.Now().Before(deadline) {
		time.Sleep(time.Millisecond)
	}
	time.Sleep(5 * time.Millisecond)
	return func() [][]byte { sh.Unlock(); return <-parts }
}

// The keys of one step are in shards before and after the one that a cut has come to: it
// takes both or none.
func TestACutTearsNoStep(t *testing.T) {
	l := perMinute(algo.Fixed, 100)
	steps := map[string]func(s *engine.Session, a, b []byte) error{
		"chain": func(s *engine.Session, a, b []byte) error {
			_, err := s.DecideAll(start, chainOf(engine.Segment{a, l, 1}, engine.Segment{b, l, 1}), &algo.Options{}, make([]algo.Decision, 2))
			return err
		},
		"hold": func(s *engine.Session, a, b []byte) error {
			step := s.Isolate(start, [][]byte{a, b}, 0)
			defer step.Commit()
			_, errA := s.Decide(start, a, l, 1, &algo.Options{})
			_, errB := s.Decide(start, b, l, 1, &algo.Options{})
			require.NoError(t, errA)
			return errB
		},
		"charge": func(s *engine.Session, a, b []byte) error {
			_, err := s.ChargeOnce(start, "n1", 7, []engine.Charge{{Key: a, Limit: l, Units: 1}, {Key: b, Limit: l, Units: 1}})
			return err
		},
	}
	for name, step := range steps {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, engine.Config{Shards: 4})
			n.r.Lead(start)
			a, b := n.keyOf(0), n.keyOf(3)
			resume := n.cutting(t, 1)
			done := make(chan error, 1)
			go func() { done <- step(n.s, a, b) }()
			time.Sleep(20 * time.Millisecond)
			torn := make(map[string]bool)
			for _, part := range resume() {
				for _, ef := range effectstest.ReadAll(t, part) {
					torn[ef.Key] = true
				}
			}
			require.NoError(t, <-done)
			require.Equal(t, torn[string(a)], torn[string(b)], "%v", torn)
			whole := make(map[string]bool)
			for _, part := range n.cut() {
				for _, ef := range effectstest.ReadAll(t, part) {
					whole[ef.Key] = true
				}
			}
			require.True(t, torn[string(a)] || whole[string(a)] && whole[string(b)])
		})
	}
}

// A decision in a shard that a running cut has passed is not in its batch: the next
// ticket covers it.
func TestTicketsCoverWhatIsDecidedDuringACut(t *testing.T) {
	n := newNode(t, engine.Config{Shards: 4})
	n.r.Lead(start)
	decide(t, n.s, start, string(n.keyOf(0)), perMinute(algo.Fixed, 9), 1, algo.Options{})
	taken := n.l.Open()
	resume := n.cutting(t, 1)
	decide(t, n.s, start, string(n.keyOf(0)), perMinute(algo.Fixed, 9), 1, algo.Options{})
	require.Greater(t, n.l.Open(), taken)
	require.NotNil(t, resume())
	require.NotNil(t, n.cut())
}

func TestSealedTablesRefuseEverything(t *testing.T) {
	n := newNode(t, engine.Config{})
	key, l := []byte("k"), perMinute(algo.Token, 5)
	_, err := n.s.Decide(start, key, l, 1, &algo.Options{})
	require.ErrorIs(t, err, engine.ErrSealed)
	_, err = n.s.DecideAll(start, chainOf(engine.Segment{key, l, 1}, engine.Segment{[]byte("j"), l, 1}), &algo.Options{}, make([]algo.Decision, 2))
	require.ErrorIs(t, err, engine.ErrSealed)
	_, _, err = n.s.Acquire(start, key, 5, minute, nil, 1)
	require.ErrorIs(t, err, engine.ErrSealed)
	_, _, err = n.s.IncrEx(start, key, &engine.IncrOptions{By: engine.Integer(1)})
	require.ErrorIs(t, err, engine.ErrSealed)
	_, err = n.s.ChargeOnce(start, "n1", 1, []engine.Charge{{Key: key, Limit: l, Units: 1}})
	require.ErrorIs(t, err, engine.ErrSealed)
	_, err = n.s.Delete(start, key)
	require.ErrorIs(t, err, engine.ErrSealed)
	_, _, err = n.s.Explain(start, key)
	require.ErrorIs(t, err, engine.ErrSealed)
	require.Zero(t, n.e.Len())
}

func TestTheClusterClockIsFollowed(t *testing.T) {
	for name, follow := range map[string]func(n *node, clock int64) error{
		"lead":    func(n *node, clock int64) error { n.r.Lead(clock); return nil },
		"apply":   func(n *node, clock int64) error { return n.r.Apply(nil, clock) },
		"restore": func(n *node, clock int64) error { return n.r.Restore(bytes.NewReader([]byte{0}), clock) },
	} {
		t.Run(name, func(t *testing.T) {
			clock, set := engine.NewManualClock(start)
			n := newNode(t, engine.Config{Clock: clock})
			for _, now := range []int64{start + 60*minute, start - 60*minute} {
				require.NoError(t, follow(n, now))
				require.Equal(t, now, n.e.Now())
			}
			set(start + second)
			require.Equal(t, start-60*minute+second, n.e.Now(), "and goes on")
		})
	}
}

func TestDamagedSnapshots(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine, and long under the race detector: make main runs it")
	}
	n := newNode(t, engine.Config{})
	n.r.Lead(start)
	n.e.Clock().Set(start)
	for i := range 40 {
		decide(t, n.s, start, fmt.Sprint("k", i), perMinute(algo.Fixed, 100), 1, algo.Options{})
	}
	n.cut()
	n.l.Commit()
	var snap bytes.Buffer
	require.NoError(t, n.r.Snapshot().Persist(&snap))
	whole := snap.Bytes()
	restored := newNode(t, engine.Config{})
	for end := range len(whole) {
		require.ErrorIs(t, restored.r.Restore(bytes.NewReader(whole[:end]), start), io.ErrUnexpectedEOF, "%d of %d bytes", end, len(whole))
	}
	require.NoError(t, restored.r.Restore(bytes.NewReader(whole), start))
	require.Equal(t, n.table(start), restored.table(start))
	// A corrupt length must not allocate that much memory.
	huge := binary.AppendUvarint(nil, engine.SnapshotMost+1)
	require.ErrorIs(t, restored.r.Restore(bytes.NewReader(append(huge, whole...)), start), effects.ErrEffects)
}
