package raftlog

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

// A snapshot that takes longer than a request goes on, and a caller that asks
// again learns of its end.
func TestSnapshotRun(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, nil)
	l := c.leader()
	l.set("a", "1")
	gate := make(chan struct{})
	l.m.mu.Lock()
	l.m.persist = gate
	l.m.mu.Unlock()
	ask := func(run int64) SnapshotRun {
		t.Helper()
		s, err := l.g.Caller().Snapshot(testContext(t), l.addr, run)
		require.NoError(t, err)
		return s
	}
	began := make(chan SnapshotRun)
	go func() { began <- ask(0) }()
	gate <- struct{}{} // it is being written
	first := <-began
	require.False(t, first.Done)
	require.GreaterOrEqual(t, first.Took, snapshotPatience)
	require.Equal(t, first.Run, ask(0).Run, "the same for whoever asks meanwhile")
	_, err := l.g.Caller().Snapshot(testContext(t), l.addr, first.Run+1)
	require.ErrorContains(t, err, errUnknownRun.Error())
	close(gate)
	var last SnapshotRun
	waitFor(t, "it ends", func() bool { last = ask(first.Run); return last.Done })
	require.Empty(t, last.Error)
	require.Equal(t, l.g.Status().SnapshotIndex, last.Index)
	require.NotZero(t, last.Index)

	empty := c.reserve()
	empty.cfg.Join = []string{"127.0.0.1:1"}
	empty.start()
	s, err := l.g.Caller().Snapshot(testContext(t), empty.addr, 0)
	require.NoError(t, err)
	require.True(t, s.Done && s.Nothing)
}

// A snapshot that ends in an error since the feature level has risen while it
// was written is written again, and any other is not.
func TestSnapshotIsWrittenAgainWhenTheLevelRises(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, nil)
	l := c.leader()
	l.set("a", "1")
	begun, rises := 0, true
	l.m.mu.Lock()
	l.m.refuse = func() error {
		if begun++; begun > 1 && rises {
			return nil
		}
		if rises {
			l.g.fsm.level.Add(1)
		}
		return errors.New("in old formats")
	}
	l.m.mu.Unlock()
	require.NoError(t, l.g.Snapshot(testContext(t)))
	require.Equal(t, 2, begun)
	l.set("a", "2")
	rises = false
	require.ErrorContains(t, l.g.Snapshot(testContext(t)), "in old formats")
	require.Equal(t, 3, begun)
}
