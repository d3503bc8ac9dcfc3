package raftlog

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/internal/linkfault"
)

// held is how long something is watched that must not happen: several times
// what it takes when nothing holds it.
const held = 300 * time.Millisecond

// Entries that followers have synced and the leader has not are committed for
// nobody; then they are for everybody.
func TestNothingIsCommittedBeforeTheLeadersOwnSync(t *testing.T) {
	t.Parallel()
	c, l, disks := faultyCluster(t, func(cfg *Config) { cfg.StallTimeout = time.Minute })
	c.converge()
	release := make(chan struct{})
	mend := sync.OnceFunc(func() { disks[l.n].hangSync.Store(nil); close(release) })
	t.Cleanup(mend)
	disks[l.n].hangSync.Store(&release)
	last := l.g.Status().LastIndex
	require.NoError(t, l.m.set("b", "1"))
	for _, n := range c.nodes {
		waitFor(t, "the entry is in every log", func() bool { return n.g.Status().LastIndex > last })
	}
	require.Never(t, func() bool {
		for _, n := range c.nodes {
			if n != l && len(n.m.snapshotTable()) > 1 {
				return true
			}
		}
		return l.g.Unacked() == 0
	}, held, held/10)
	mend()
	l.committed()
	require.Equal(t, map[string]string{"a": "1", "b": "1"}, c.converge())
}

// A leader that cannot sync what its followers have is out at once; the next
// one decides what becomes of it, the same for all.
func TestFailedOwnSyncStopsLeader(t *testing.T) {
	t.Parallel()
	c, l, disks := faultyCluster(t, nil)
	disks[l.n].failSync.Store(true)
	require.NoError(t, l.m.set("b", "1"))
	waitFor(t, "fatal", func() bool { return l.fatal.Load() != nil })
	require.ErrorIs(t, *l.fatal.Load(), ErrDisk)
	require.Equal(t, map[string]string{"a": "1"}, l.m.snapshotTable(), "the batch is undone")
	c.leader(l).set("c", "1")
	l.crash()
	disks[l.n].failSync.Store(false)
	l.start()
	table := c.converge()
	delete(table, "b") // its outcome is open
	require.Equal(t, map[string]string{"a": "1", "c": "1"}, table)
}

// The watchdog sees a sync of its own that hangs, also when the leadership has
// ended meanwhile, and the node can be closed.
func TestHangingOwnSyncStopsLeader(t *testing.T) {
	for name, alone := range map[string]bool{"leading": false, "deposed": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, l, disks := faultyCluster(t, nil)
			release := make(chan struct{})
			t.Cleanup(func() { close(release) })
			disks[l.n].hangSync.Store(&release)
			require.NoError(t, l.m.set("b", "1"))
			if alone {
				c.isolate(l, linkfault.Hold)
				waitFor(t, "the lease ends", func() bool { return !l.m.leading() })
			}
			waitFor(t, "fatal", func() bool { return l.fatal.Load() != nil })
			require.ErrorIs(t, *l.fatal.Load(), ErrStalled)
			c.leader(l).set("c", "1")
			begin := time.Now()
			l.crash()
			require.Less(t, time.Since(begin), 2*shutdownTimeout)
		})
	}
}

// The fsm takes nothing more when what it waits for cannot be synced.
func TestGateShutsAfterAFailedSync(t *testing.T) {
	f, m, _ := testFSM("a")
	g := syncedFSM{f, unsynced{}}
	g.Apply(entryOf(1, 1, header{node: "b", term: 1, batch: 1, parts: 1}, `{"x":"1"}`))
	require.Empty(t, m.snapshotTable())
	require.ErrorIs(t, f.failed, errInjected)
}

// unsynced is a log whose sync has failed.
type unsynced struct{}

func (unsynced) Await(uint64) error { return errInjected }
