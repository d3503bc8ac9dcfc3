package raftlog

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/internal/linkfault"
	"github.com/headgate-io/headgate/raftlog/disk"
	"github.com/headgate-io/headgate/raftlog/wal"
)

// faultyLog is a log on a disk that can fail or hang.
type faultyLog struct {
	raft.LogStore
	fail     atomic.Bool
	failWith atomic.Pointer[error]
	hang     atomic.Pointer[chan struct{}]
	skip     func(*raft.Log) bool // entries whose write hangs for ever

	failSync atomic.Bool // fail and hang, for syncs of their own
	hangSync atomic.Pointer[chan struct{}]
}

var errInjected = errors.New("injected: no space left on device")

func (f *faultyLog) StoreLogs(logs []*raft.Log) error {
	if err := f.before(logs); err != nil {
		return err
	}
	return f.LogStore.StoreLogs(logs)
}

func (f *faultyLog) Write(logs []*raft.Log) error {
	if err := f.before(logs); err != nil {
		return err
	}
	return f.LogStore.(*wal.Log).Write(logs)
}

func (f *faultyLog) Sync() error {
	if ch := f.hangSync.Load(); ch != nil {
		<-*ch
	}
	if f.failSync.Load() {
		return errInjected
	}
	return f.LogStore.(*wal.Log).Sync()
}

func (f *faultyLog) before(logs []*raft.Log) error {
	if ch := f.hang.Load(); ch != nil {
		<-*ch
	}
	if f.fail.Load() {
		return errInjected
	}
	if err := f.failWith.Load(); err != nil {
		return *err
	}
	if f.skip != nil {
		for _, l := range logs {
			if f.skip(l) {
				select {}
			}
		}
	}
	return nil
}

// faultyCluster starts three nodes whose logs can fail, configured by configure
// unless it is nil, and returns their leader after its first entry.
func faultyCluster(t *testing.T, configure func(*Config)) (c *testCluster, l *testNode, disks []*faultyLog) {
	disks = make([]*faultyLog, 3)
	c = newCluster(t, len(disks), func(n int, cfg *Config) {
		disks[n] = &faultyLog{}
		cfg.wrapLog = func(s raft.LogStore) raft.LogStore {
			disks[n].LogStore = s
			return disks[n]
		}
		cfg.StallTimeout = time.Second
		if configure != nil {
			configure(cfg)
		}
	})
	l = c.leader()
	l.set("a", "1")
	return c, l, disks
}

func TestDiskErrorStopsLeader(t *testing.T) {
	t.Parallel()
	c, l, disks := faultyCluster(t, nil)
	disks[l.n].fail.Store(true)
	require.NoError(t, l.m.set("b", "1"))
	waitFor(t, "fatal", func() bool { return l.fatal.Load() != nil })
	require.ErrorIs(t, *l.fatal.Load(), ErrDisk)
	require.False(t, l.m.leading())
	require.Equal(t, map[string]string{"a": "1"}, l.m.snapshotTable(), "the failed batch is undone")
	require.Equal(t, "halted", l.g.Status().State)

	next := c.leader(l)
	next.set("c", "1")
	l.crash()
	disks[l.n].fail.Store(false)
	l.start()
	require.Equal(t, map[string]string{"a": "1", "c": "1"}, c.converge())
}

func TestDiskErrorStopsFollower(t *testing.T) {
	t.Parallel()
	c, l, disks := faultyCluster(t, nil)
	f := l.other(1)
	disks[f.n].fail.Store(true)
	l.set("c", "1")
	waitFor(t, "fatal", func() bool { return f.fatal.Load() != nil })
	require.ErrorIs(t, *f.fatal.Load(), ErrDisk)
	l.set("b", "1")
	require.Same(t, l, c.leader())
}

// A leader whose disk hangs goes on sending heartbeats; the watchdog ends that.
func TestHangingDiskEndsLeadership(t *testing.T) {
	t.Parallel()
	c, l, disks := faultyCluster(t, nil)
	release := make(chan struct{})
	t.Cleanup(func() { close(release) })
	disks[l.n].hang.Store(&release)
	require.NoError(t, l.m.set("b", "1"))
	waitFor(t, "fatal", func() bool { return l.fatal.Load() != nil })
	require.ErrorIs(t, *l.fatal.Load(), ErrStalled)
	next := c.leader(l)
	next.set("c", "1")
	require.Equal(t, map[string]string{"a": "1"}, l.m.snapshotTable())
}

// A crash in the middle of a batch of many parts leaves none of it behind.
func TestTornBatch(t *testing.T) {
	t.Parallel()
	c, l, disks := faultyCluster(t, func(cfg *Config) { cfg.MaxEntry = minMaxEntry })
	c.converge()
	disks[l.n].skip = func(e *raft.Log) bool {
		if e.Type != raft.LogCommand {
			return false
		}
		h, _, err := decodeEntry(e.Data)
		return err == nil && h.parts > 1 && h.part >= 5
	}
	var kv []string
	for i := range 200 {
		kv = append(kv, fmt.Sprintf("torn-%03d", i), fmt.Sprintf("%050d", i))
	}
	require.NoError(t, l.m.set(kv...))
	other := l.other(1)
	last := other.g.Status().AppliedIndex
	waitFor(t, "some parts are committed", func() bool { return other.g.Status().AppliedIndex >= last+3 })
	require.NoError(t, other.g.Snapshot(testContext(t)), "with an incomplete batch")
	l.crash()
	next := c.leader()
	next.set("b", "1")
	require.Equal(t, map[string]string{"a": "1", "b": "1"}, c.converge())
	other.crash()
	other.start()
	require.Equal(t, map[string]string{"a": "1", "b": "1"}, c.converge())
}

// A power loss tears a follower's last write: that write is gone, the rest is
// not, and the leader sends it again.
func TestTornLog(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, nil)
	l := c.leader()
	l.write("k", 20)
	c.converge()
	f := l.other(1)
	var stable []byte
	for noted := true; noted; { // another node may note the write: then it was synced
		if !f.running() {
			f.start()
			c.converge()
		}
		before := f.g.Status()
		var err error
		stable, err = os.ReadFile(filepath.Join(f.cfg.dir(), "stable"))
		require.NoError(t, err)
		l.set("x", strings.Repeat("x", 3000)) // several sectors
		c.converge()
		f.crash()
		noted = false
		for _, n := range []*testNode{f.other(1), f.other(2)} {
			waitFor(t, "it is missed", func() bool { return !n.sees(f).Up })
			noted = noted || n.sees(f).HeldIndex > before.LastIndex || n.sees(f).HeldTerm > before.Term
		}
	}
	require.NoError(t, os.WriteFile(filepath.Join(f.cfg.dir(), "stable"), stable, 0o644)) // the close was not to be
	b, path := lastSegment(t, f)
	clear(b[(len(bytes.TrimRight(b, "\x00"))-1)/512*512:])
	require.NoError(t, os.WriteFile(path, b, 0o644))
	l.write("m", 5)
	f.start()
	require.Len(t, c.converge(), 26)
}

// lastSegment returns the content and the path of a stopped node's newest log
// file.
func lastSegment(t *testing.T, n *testNode) (b []byte, path string) {
	found, err := filepath.Glob(filepath.Join(n.cfg.dir(), "log-*"))
	require.NoError(t, err)
	require.NotEmpty(t, found)
	path = found[len(found)-1]
	b, err = os.ReadFile(path)
	require.NoError(t, err)
	return b, path
}

// A store that is damaged, or of which a part is missing, is an error that
// names a file, and no panic.
func TestDamagedStore(t *testing.T) {
	t.Parallel()
	stable := func(n *testNode) string { return filepath.Join(n.cfg.dir(), "stable") }
	for name, harm := range map[string]func(t *testing.T, n *testNode){
		"log in the middle": func(t *testing.T, n *testNode) {
			b, path := lastSegment(t, n)
			b[1100] ^= 1
			require.NoError(t, os.WriteFile(path, b, 0o644))
		},
		"half of the log file": func(t *testing.T, n *testNode) {
			b, path := lastSegment(t, n)
			require.NoError(t, os.Truncate(path, int64(len(bytes.TrimRight(b, "\x00"))/2)))
		},
		"log file missing": func(t *testing.T, n *testNode) {
			_, path := lastSegment(t, n)
			require.NoError(t, os.Remove(path))
		},
		"term and vote missing": func(t *testing.T, n *testNode) { require.NoError(t, os.Remove(stable(n))) },
		"term and vote empty":   func(t *testing.T, n *testNode) { require.NoError(t, os.Truncate(stable(n), 0)) },
		"term and vote damaged in both copies": func(t *testing.T, n *testNode) {
			b, err := os.ReadFile(stable(n))
			require.NoError(t, err)
			b[50] ^= 1
			b[len(b)/2+60] ^= 1
			require.NoError(t, os.WriteFile(stable(n), b, 0o644))
		},
		"log damaged in its last byte": func(t *testing.T, n *testNode) {
			b, path := lastSegment(t, n)
			b[len(bytes.TrimRight(b, "\x00"))-1] ^= 1
			require.NoError(t, os.WriteFile(path, b, 0o644))
		},
		"log without its last sector": func(t *testing.T, n *testNode) {
			b, path := lastSegment(t, n)
			clear(b[(len(bytes.TrimRight(b, "\x00"))-1)/512*512:])
			require.NoError(t, os.WriteFile(path, b, 0o644))
		},
		"only snapshots left": func(t *testing.T, n *testNode) {
			_, path := lastSegment(t, n)
			require.NoError(t, os.Remove(path))
			require.NoError(t, os.Remove(stable(n)))
		},
		"older format": func(t *testing.T, n *testNode) {
			_, path := lastSegment(t, n)
			require.NoError(t, os.Remove(path))
			require.NoError(t, os.Remove(stable(n)))
			require.NoError(t, os.WriteFile(filepath.Join(n.cfg.dir(), "raft.db"), nil, 0o644))
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, 1, nil)
			n := c.leader()
			n.write("k", 20)
			require.NoError(t, n.g.Snapshot(t.Context()))
			n.crash()
			harm(t, n)
			err := n.open()
			require.ErrorIs(t, err, ErrCorrupt)
			require.ErrorContains(t, err, "wipe this node's data")
		})
	}
}

// One copy of term and vote is enough: the other is made anew.
func TestOneCopyOfTermAndVoteIsDamaged(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, nil)
	n := c.leader()
	n.set("a", "1")
	n.crash()
	path := filepath.Join(n.cfg.dir(), "stable")
	for half := range 2 {
		b, err := os.ReadFile(path)
		require.NoError(t, err)
		clear(b[half*len(b)/2 : (half+1)*len(b)/2])
		require.NoError(t, os.WriteFile(path, b, 0o644))
		n.start()
		require.Equal(t, map[string]string{"a": "1"}, c.converge())
		n.crash()
	}
}

func TestDataDirIsLocked(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, nil)
	n := c.leader()
	other := c.reserve()
	other.cfg.DataDir = n.cfg.DataDir
	require.ErrorIs(t, other.open(), ErrLocked)
}

func TestUnknownVersionsStopTheNode(t *testing.T) {
	t.Parallel()
	t.Run("entry", func(t *testing.T) {
		c := newCluster(t, 1, nil)
		n := c.leader()
		n.set("a", "1")
		n.g.raft().Apply([]byte{99, 1, 2, 3}, 0)
		waitFor(t, "fatal", func() bool { return n.fatal.Load() != nil })
		require.ErrorIs(t, *n.fatal.Load(), ErrVersion)
		require.False(t, n.m.leading())
		n.crash()
		// After a restart the entry is still there.
		require.NoError(t, n.open())
		waitFor(t, "fatal again", func() bool { return n.fatal.Load() != nil })
		require.ErrorContains(t, *n.fatal.Load(), "upgrade this node")
	})
	t.Run("payload", func(t *testing.T) {
		c := newCluster(t, 3, nil)
		l := c.leader()
		f := l.other(1)
		f.m.mu.Lock()
		f.m.failWith = errors.New("payload version 7 is unknown")
		f.m.mu.Unlock()
		l.set("a", "1")
		waitFor(t, "fatal", func() bool { return f.fatal.Load() != nil })
		require.ErrorContains(t, *f.fatal.Load(), "payload version 7")
		l.set("b", "1")
		require.NotContains(t, f.m.snapshotTable(), "b")
	})
	t.Run("snapshot", func(t *testing.T) {
		c := newCluster(t, 1, nil)
		n := c.leader()
		n.set("a", "1")
		require.NoError(t, n.g.Snapshot(testContext(t)))
		n.crash()
		store, err := disk.OpenSnapshots(n.cfg.dir(), disk.NewLog(raft.NewInmemStore(), nil, n.cfg.Logger), n.cfg.Logger, newRaftLogger(n.cfg.Logger), nil)
		require.NoError(t, err)
		metas, err := store.List()
		require.NoError(t, err)
		m := metas[0]
		_, trans := raft.NewInmemTransport("x")
		sink, err := store.Create(m.Version, m.Index+1, m.Term, m.Configuration, m.ConfigurationIndex, trans)
		require.NoError(t, err)
		_, err = sink.Write([]byte("HGS\x09future"))
		require.NoError(t, err)
		require.NoError(t, sink.Close())
		require.ErrorIs(t, n.open(), ErrVersion)
	})
}

// Terms do not run away while a node is cut off, and its return disturbs no leader: pre-vote
// works with the wrapped transport.
func TestPreVote(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, nil)
	for range 5 { // on a busy machine the others may hold an election of their own
		l := c.leader()
		f := l.other(1)
		c.isolate(f, linkfault.Faults{Cut: true})
		knows := func() bool { id, _ := f.g.Leader(); return id != "" }
		waitFor(t, "it hears nobody", func() bool { return !knows() })
		term := f.g.Status().Term
		time.Sleep(5 * testTimeouts.Election)
		require.Equal(t, term, f.g.Status().Term)
		term = l.g.Status().Term
		c.heal()
		waitFor(t, "a leader is known again", knows)
		if f.g.Status().Term == term && c.leader() == l {
			return
		}
	}
	t.Fatal("each return has cost a leader its place")
}

// Raft hands its heartbeat handler to the transport, which must not use it.
func TestHeartbeatsAreSerial(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, nil)
	a := c.leader()
	b := c.reserve()
	b.cfg.Join = []string{a.addr}
	b.start()
	waitFor(t, "it is a member", func() bool { return b.g.Status().ClusterID != "" })
	trans := a.g.cur.Load().trans
	direct := make(chan raft.RPC, 1)
	trans.SetHeartbeatHandler(func(r raft.RPC) { direct <- r })
	req := raft.AppendEntriesRequest{RPCHeader: raft.RPCHeader{ProtocolVersion: 3, ID: []byte("n1"), Addr: []byte(b.addr)}, Term: 1}
	var resp raft.AppendEntriesResponse
	require.NoError(t, b.g.cur.Load().trans.AppendEntries(a.server(), raft.ServerAddress(a.addr), &req, &resp))
	require.Empty(t, direct)
	require.False(t, resp.Success, "the main loop has seen the old term")
}

// Fast flapping: links come and go under load, and in the end all agree.
func TestFlappingLinks(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, nil)
	stop := time.Now().Add(6 * time.Second)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := 0; time.Now().Before(stop); i++ {
			for _, n := range c.nodes {
				_ = n.m.set(fmt.Sprintf("k%d", i%50), fmt.Sprint(i))
			}
			time.Sleep(time.Millisecond)
		}
	}()
	for i := 0; time.Now().Before(stop); i++ {
		n := c.leader()
		f := linkfault.Hold
		if i%2 == 0 {
			f = linkfault.Faults{Cut: true}
		}
		c.isolate(n, f)
		time.Sleep(2 * testTimeouts.Election)
		c.heal()
		time.Sleep(testTimeouts.Election)
	}
	<-done
	c.converge()
	var deposed int
	for _, n := range c.nodes {
		n.m.mu.Lock()
		deposed += n.m.deposed
		n.m.mu.Unlock()
	}
	require.NotZero(t, deposed, "no leader was ever deposed")
}

// Answers that Raft no longer reads must not block the pipeline: see
// transport.AppendEntriesPipeline.
func TestPipelineDoesNotDeadlock(t *testing.T) {
	t.Parallel()
	var trans [2]transport
	id := testIdentity(t, "b", "cluster")
	for i := range trans {
		m := testMux(t)
		var err error
		trans[i], err = newTransport(&Config{Mux: m, Advertise: m.Addr().String(), Logger: slog.New(slog.DiscardHandler)}, new(disk.Log), id, &peers{asked: asked()})
		require.NoError(t, err)
		defer trans[i].Close()
	}
	go func() {
		for rpc := range trans[1].Consumer() {
			rpc.Respond(&raft.AppendEntriesResponse{Success: false}, nil)
		}
	}()
	p, err := trans[0].AppendEntriesPipeline(id.Server(), trans[1].LocalAddr())
	require.NoError(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 10 {
			_, err := p.AppendEntries(&raft.AppendEntriesRequest{Term: 1}, &raft.AppendEntriesResponse{})
			assert.NoError(t, err)
		}
	}()
	select {
	case <-done:
	case <-time.After(5 * time.Second):
		t.Fatal("the pipeline is stuck")
	}
	require.NoError(t, p.Close())
}

// A node whose data directory is deleted or replaced under it ends, and the
// others go on.
func TestDataDirectoryIsDeletedUnderANode(t *testing.T) {
	t.Parallel()
	_, l := newTrio(t)
	f := l.other(1)
	require.NoError(t, os.Rename(f.cfg.DataDir, f.cfg.DataDir+".gone"))
	waitFor(t, "it ends", func() bool { return f.fatal.Load() != nil })
	require.ErrorIs(t, *f.fatal.Load(), ErrDataGone)
	f.crash()

	f = l.other(2)
	require.NoError(t, os.CopyFS(f.cfg.DataDir+".copy", os.DirFS(f.cfg.DataDir)))
	require.NoError(t, os.Rename(f.cfg.DataDir, f.cfg.DataDir+".gone"))
	require.NoError(t, os.Rename(f.cfg.DataDir+".copy", f.cfg.DataDir))
	waitFor(t, "it ends", func() bool { return f.fatal.Load() != nil })
	require.ErrorIs(t, *f.fatal.Load(), ErrDataGone)
}
