package raftlog

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/internal/linkfault"
)

// All who ask while a round runs share the next one; nobody is answered by a
// round that began before the question.
func TestVerifyRoundsAreShared(t *testing.T) {
	var rounds atomic.Int32
	gate := make(chan struct{})
	errRound := errors.New("round")
	v := newVerifier(func(context.Context) error {
		if rounds.Add(1) == 1 {
			<-gate
			return errRound
		}
		return nil
	})
	go v.run(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { assert.ErrorIs(t, v.join(t.Context(), nil), errRound) })
	require.Eventually(t, func() bool { return rounds.Load() == 1 }, time.Second, time.Millisecond)
	var waiting atomic.Int32
	for range 500 {
		wg.Go(func() {
			waiting.Add(1)
			assert.NoError(t, v.join(t.Context(), nil))
		})
	}
	require.Eventually(t, func() bool { return waiting.Load() == 500 }, 5*time.Second, time.Millisecond)
	time.Sleep(10 * time.Millisecond)
	close(gate)
	wg.Wait()
	require.LessOrEqual(t, rounds.Load(), int32(3), "the first, the shared one, and one for a latecomer")
}

// A check that never returns holds nobody.
func TestVerifyHasAnotherExit(t *testing.T) {
	v := newVerifier(func(context.Context) error { select {} })
	go v.run(t.Context())
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, v.join(ctx, nil), context.DeadlineExceeded)
	down := make(chan struct{})
	close(down)
	require.ErrorIs(t, v.join(t.Context(), down), ErrClosed)
}

func TestVerify(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, nil)
	l := c.leader()
	require.NoError(t, l.g.Verify(testContext(t)))
	require.ErrorIs(t, l.other(1).g.Verify(testContext(t)), ErrNotLeader)
	c.isolate(l, linkfault.Hold)
	time.Sleep(testTimeouts.Lease / 10) // for what was on its way
	// Its lease has not ended, so it believes to lead.
	require.Error(t, l.g.Verify(testContext(t)), "no majority confirms")
}
