package partition

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// After a handover, what the failure policy can answer waits as in it only until
// the next leader is at it: then it waits for as long as for any leader.
func TestAHandoverIsOverWhenTheNextLeaderAnswers(t *testing.T) {
	r := newFake(Following)
	r.dial = scriptedLeader(t, func(c string) string { return "+" + c + "\r\n" })
	f := fakePartition(t, r, FailLocal).fast
	require.False(t, f.handingOver(true))
	require.False(t, f.handingOver(false))
	f.noteHandover()
	require.True(t, f.handingOver(true))
	require.True(t, f.handingOver(false))

	// The last leader's answers do not count.
	answered := func() bool {
		c := &carrier{f: f}
		defer c.drop()
		fr, _ := frameOf("A")
		fr.Prompt = true
		c.deliver(mayWait(fr))
		require.Equal(t, Answered, fr.End())
		return f.settled.Load() == f.epoch.Load()+1
	}
	require.Eventually(t, answered, patience, time.Millisecond, "an answer that takes long does not count")
	f.leaderChanged()
	require.Equal(t, handoverAfter, f.handoverFor(true))
	require.Eventually(t, answered, patience, time.Millisecond)
	require.Equal(t, settledAfter, f.handoverFor(true))
	require.Equal(t, handoverAfter, f.handoverFor(false), "it has no other answer")

	f.begun = time.Now().Add(-time.Hour)
	f.noted.Store(int64(time.Since(f.begun) - settledAfter))
	require.False(t, f.handingOver(true))
	r.become(Handover)
	require.True(t, f.handingOver(true), "the next one")
}
