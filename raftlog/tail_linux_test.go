package raftlog

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/internal/disktest"
	"github.com/headgate-io/headgate/raftlog/wal"
)

// fullDisk starts a node on its own, has it agree on a=1, and fills its disk up,
// and the room that its log has.
func fullDisk(t *testing.T, wrap func(raft.LogStore) raft.LogStore) (*testNode, *disktest.Disk) {
	t.Helper()
	d := disktest.Mount(t, 24<<20)
	n := newCluster(t, 1, func(_ int, c *Config) { c.DataDir, c.wrapLog = filepath.Join(d.Dir, "data"), wrap }).leader()
	n.set("a", "1")
	require.NoError(t, d.Fill())
	n.fillLog()
	return n, d
}

// fillLog writes until the log has no room.
func (n *testNode) fillLog() {
	waitFor(n.c.t, "the disk is full", func() bool {
		n.set("filler", fmt.Sprintf("%0200000d", 1))
		_, full := n.g.DiskFull()
		return full
	})
	n.set("filler", "")
}

func (n *testNode) awaitRoom() {
	waitFor(n.c.t, "the log goes on", func() bool {
		_, full := n.g.DiskFull()
		return !full
	})
}

// A node that is alone goes on while its disk is full, and can start then. Once
// there is room, its decisions are on its disk.
func TestNodeAloneOutlivesAFullDisk(t *testing.T) {
	t.Parallel()
	n, d := fullDisk(t, nil)
	n.set("b", "1")
	require.True(t, n.g.Status().DiskFull)
	require.ErrorIs(t, n.g.join(testContext(t), memberArgs{ID: "other", Addr: "127.0.0.1:1"}), ErrDiskFull)

	// Decisions in memory only are gone with the process.
	n.crash()
	n.start()
	n.c.leader()
	require.Equal(t, "1", n.m.snapshotTable()["a"])
	require.NotContains(t, n.m.snapshotTable(), "b")
	n.fillLog()
	n.set("c", "1")
	require.NoError(t, d.Free())
	n.awaitRoom()
	n.set("d", "1")
	want := n.m.snapshotTable()
	n.crash()
	n.start()
	n.c.leader()
	require.Equal(t, want, n.c.converge())
	require.Equal(t, map[string]string{"a": "1", "c": "1", "d": "1"}, want)
	require.Nil(t, n.fatal.Load())
}

// A node that is alone may correct its own address while its disk is full: it is
// alone after that, too.
func TestAFullDiskBearsTheNodesOwnAddress(t *testing.T) {
	t.Parallel()
	n, _ := fullDisk(t, nil)
	require.NoError(t, n.g.cur.Load().raft.AddVoter(n.server(), "127.0.0.1:9", 0, patience).Error())
	n.set("b", "1")
	require.Equal(t, "1", n.m.snapshotTable()["b"])
	require.Nil(t, n.fatal.Load())
}

// A stop in order keeps the decisions in memory, if there is room by then.
func TestStopAfterAFullDisk(t *testing.T) {
	t.Parallel()
	n, d := fullDisk(t, nil)
	n.set("b", "1")
	require.NoError(t, d.Free())
	require.NoError(t, n.close())
	n.start()
	n.c.leader()
	require.Equal(t, map[string]string{"a": "1", "b": "1"}, n.c.converge())
}

// A process that is killed while the log is put on the disk again starts with
// the snapshot that has ended the tail.
func TestKillWhileTheTailEnds(t *testing.T) {
	t.Parallel()
	copies := &copyingLog{to: t.TempDir()}
	n, d := fullDisk(t, func(s raft.LogStore) raft.LogStore {
		copies.LogStore = s
		return copies
	})
	n.set("b", "1")
	copies.copyFrom(n.cfg.DataDir)
	require.NoError(t, d.Free())
	n.awaitRoom()
	made := copies.copyFrom("")
	require.NoError(t, copies.err)
	require.GreaterOrEqual(t, made, 2, "before and after the deletion of the log")
	n.crash()
	for i := range made {
		n.cfg.wrapLog = nil
		n.cfg.DataDir = filepath.Join(copies.to, fmt.Sprint(i))
		n.start()
		n.c.leader()
		table := n.c.converge()
		require.Equal(t, map[string]string{"a": "1", "b": "1"}, table, "copy %d", i)
		n.set("c", "1")
		n.crash()
	}
}

// copyingLog copies the data of a node before and after each change of its log.
type copyingLog struct {
	raft.LogStore
	to string

	mu   sync.Mutex
	data string
	made int
	err  error
}

// copyFrom names the directory that is copied from now on, "" for none, and
// returns how many copies there are.
func (l *copyingLog) copyFrom(data string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.data = data
	return l.made
}

func (l *copyingLog) keep() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.data == "" || l.err != nil {
		return
	}
	l.err = os.CopyFS(filepath.Join(l.to, fmt.Sprint(l.made)), os.DirFS(l.data))
	l.made++
}

func (l *copyingLog) DeleteRange(first, last uint64) error {
	l.keep()
	defer l.keep()
	return l.LogStore.DeleteRange(first, last)
}

func (l *copyingLog) StoreLogs(logs []*raft.Log) error {
	l.keep()
	defer l.keep()
	return l.LogStore.StoreLogs(logs)
}

// A node that has others leaves the cluster to them, as it does after any
// failed write.
func TestFullDiskOfOneOfThree(t *testing.T) {
	t.Parallel()
	c, l, disks := faultyCluster(t, nil)
	disks[l.n].failWith.Store(&wal.ErrNoRoom)
	require.NoError(t, l.m.set("b", "1"))
	waitFor(t, "fatal", func() bool { return l.fatal.Load() != nil })
	require.ErrorIs(t, *l.fatal.Load(), ErrDisk)
	c.leader(l).set("c", "1")
}
