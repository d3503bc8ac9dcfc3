package partition

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// After a handover, a call that the failure policy can answer waits as during it
// only until the next leader answers. Then it waits for as long as for any
// leader.
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

// A frame that is under way when a handover is announced waits for its outcome,
// although it was sent before, and some of its replies are there.
func TestAHandoverPutsTheEndOfWaitsOff(t *testing.T) {
	asked, release := make(chan struct{}), make(chan struct{})
	r := newFake(Following)
	r.dial = scriptedLeader(t, func(c string) string {
		if c == "B" {
			close(asked)
			<-release
		}
		return "+" + c + "\r\n"
	})
	p := fakePartition(t, r, FailClosed)
	p.fast.timeout = 50 * time.Millisecond
	fr, done := frameOf("A", "B")
	require.True(t, p.Forward(fr))
	await(t, asked)
	p.NoteHandover()
	time.Sleep(3 * p.fast.timeout)
	close(release)
	await(t, done)
	require.Equal(t, Answered, fr.End())
	require.Equal(t, "+B\r\n", string(fr.Reply(1)))
}

// If this process did not run for a while, replies that came meanwhile count,
// once.
func TestAPauseOfThisNodeIsNoSilenceOfTheLeader(t *testing.T) {
	f := fakePartition(t, newFake(Following), FailClosed).fast
	fr, _ := frameOf("A")
	fr.answer = time.Now().Add(-time.Second)
	require.True(t, f.outlast(fr))
	require.True(t, fr.answer.After(time.Now()))
	fr.answer = time.Now().Add(-time.Second)
	require.False(t, f.outlast(fr))
	punctual, _ := frameOf("A")
	punctual.answer = time.Now().Add(time.Hour)
	require.False(t, f.outlast(punctual))
}
