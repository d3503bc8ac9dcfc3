package partition

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/engine/algo"
)

// admits is how many of calls on one key a partition's failure policy admits.
func admits(t *testing.T, l Limiter, calls int) (n int) {
	t.Helper()
	for range calls {
		d, err := l.Decide(1<<60, []byte("k"), nineAnHour, 1, &algo.Options{})
		require.NoError(t, err)
		if d.OK {
			n++
		}
	}
	return n
}

// open keeps its counts until a leader has been there, and nobody has called, for
// some time; then it forgets them.
func TestOpenForgetsWithALeader(t *testing.T) {
	f := newFake(Orphaned)
	p := fakePartition(t, f, FailOpen)
	p.open.quiet = 50 * time.Millisecond
	require.Equal(t, 9*DefaultBackstop, admits(t, p.Degraded(), 200))
	require.Equal(t, 9*DefaultBackstop, int(200-p.Backstop().Denied))
	time.Sleep(5 * p.open.quiet)
	require.Zero(t, admits(t, p.Degraded(), 1), "there is no leader")

	f.become(Following)
	counting := func() bool {
		p.open.mu.Lock()
		defer p.open.mu.Unlock()
		return p.open.gap != nil
	}
	require.Eventually(t, func() bool { return !counting() }, patience, time.Millisecond)
	f.become(Orphaned)
	require.Equal(t, 1, admits(t, p.Degraded(), 1))
	require.True(t, counting())
}

// A backstop that is said wins over the partition's.
func TestBackstopOfACall(t *testing.T) {
	p := fakePartition(t, newFake(Orphaned), FailClosed)
	require.Nil(t, p.Degraded())
	require.Equal(t, engine.BackstopCounts{}, p.Backstop())
	require.Equal(t, 9*3, admits(t, p.DegradedBy(FailOpen, 3), 100))
	require.Equal(t, 9*(DefaultBackstop-3), admits(t, p.DegradedBy(FailOpen, 0), 200))
}
