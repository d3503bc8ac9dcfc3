package raftlog

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/internal/linkfault"
	"github.com/headgate-io/headgate/raftlog/peer"
)

// testTimeouts are short enough for tests and long enough for a busy machine.
var testTimeouts = Timeouts{Heartbeat: 600 * time.Millisecond, Election: 600 * time.Millisecond, Lease: 500 * time.Millisecond}

// TestMain lets more tests run at once than there are processors: they mostly
// wait for timeouts.
func TestMain(m *testing.M) {
	flag.Parse()
	if flag.Lookup("test.parallel").Value.String() == fmt.Sprint(runtime.GOMAXPROCS(0)) {
		flag.Set("test.parallel", "8")
	}
	os.Exit(m.Run())
}

// patience bounds a test's wait for an event that takes a second at most: a
// loaded machine with a slow disk is no defect.
const patience = 30 * time.Second

// testSecret is what the nodes of a testCluster share.
func testSecret() [][]byte { return [][]byte{[]byte("of the nodes of a test")} }

// testCluster runs nodes in this process. Every ordered pair has a proxy: what
// one node dials to another goes through it.
type testCluster struct {
	t     testing.TB
	nodes []*testNode
	log   *slog.Logger
	links map[[2]int]*linkfault.Proxy // [from, to]

	// mu guards via, which dials read while further nodes are added.
	mu  sync.Mutex
	via map[string]string // "from addr" -> proxy
}

var nodeIPs atomic.Uint32

type testNode struct {
	c     *testCluster
	n     int
	addr  string
	cfg   Config
	m     *mapMachine
	mux   *peer.Mux
	g     *Group
	fatal atomic.Pointer[error]
	dials atomic.Int64 // connections to others

	secrets peer.Secrets // testSecret unless a test sets another
}

// newCluster starts size nodes that found a cluster together; configure may
// change each node's configuration.
func newCluster(t testing.TB, size int, configure func(n int, c *Config)) *testCluster {
	c := &testCluster{t: t, links: map[[2]int]*linkfault.Proxy{}, via: map[string]string{}, log: slog.New(slog.DiscardHandler)}
	if os.Getenv("RAFTLOG_TEST_LOG") != "" {
		c.log = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	var join []string
	for range size {
		join = append(join, c.reserve().addr)
	}
	for _, n := range c.nodes {
		n.cfg.BootstrapExpect = size
		n.cfg.Join = join
		if size == 1 {
			n.cfg.Join = nil
		}
		if configure != nil {
			configure(n.n, &n.cfg)
		}
	}
	for _, n := range c.nodes {
		n.start()
	}
	return c
}

// littleLog has snapshots leave as little log as is allowed, as of large entries.
func littleLog(_ int, cfg *Config) { cfg.trailing = 1 }

// newTrio starts three nodes and has them agree on a first key, a=1.
func newTrio(t testing.TB) (c *testCluster, leader *testNode) {
	c = newCluster(t, 3, nil)
	leader = c.leader()
	leader.set("a", "1")
	c.converge()
	return c, leader
}

// other returns one of the other two of the first three nodes, the first or the
// second.
func (n *testNode) other(i int) *testNode { return n.c.nodes[(n.n+i)%3] }

// sees returns what the node says of another member, zero if that is not a
// member.
func (n *testNode) sees(o *testNode) Member {
	for _, m := range n.g.Members() {
		if m.ID == o.cfg.NodeID {
			return m
		}
	}
	return Member{}
}

// reserve makes a node with an address, not started.
func (c *testCluster) reserve() *testNode {
	// An IP of its own, so that nothing else takes the port while the node is
	// down.
	ip := os.Getpid()<<8 + int(nodeIPs.Add(1))
	ln, err := net.Listen("tcp", fmt.Sprintf("127.%d.%d.%d:0", 1+ip>>16%254, ip>>8%256, 1+ip%254))
	require.NoError(c.t, err)
	ln.Close()
	n := &testNode{c: c, n: len(c.nodes), addr: ln.Addr().String(), secrets: testSecret}
	for _, o := range c.nodes {
		for _, pair := range [][2]*testNode{{n, o}, {o, n}} {
			p, err := linkfault.New("127.0.0.1:0", pair[1].addr)
			require.NoError(c.t, err)
			c.t.Cleanup(func() { p.Close() })
			c.links[[2]int{pair[0].n, pair[1].n}] = p
			c.mu.Lock()
			c.via[pair[0].addr+" "+pair[1].addr] = p.Addr()
			c.mu.Unlock()
		}
	}
	n.cfg = Config{
		NodeID:        fmt.Sprintf("n%d", n.n),
		DataDir:       filepath.Join(c.t.TempDir(), fmt.Sprintf("n%d", n.n)),
		Timeouts:      testTimeouts,
		NoSync:        true,
		PromoteAfter:  100 * time.Millisecond,
		SnapshotBytes: 1 << 50,
		Logger:        c.log,
	}
	c.nodes = append(c.nodes, n)
	return n
}

// start opens the node with a new machine.
func (n *testNode) start() {
	require.NoError(n.c.t, n.open())
}

func (n *testNode) open() error {
	ln, err := net.Listen("tcp", n.addr)
	require.NoError(n.c.t, err)
	n.mux = peer.NewMux(peer.MuxConfig{Listener: ln, Logger: n.c.log, Secrets: n.secrets, NodeID: n.cfg.NodeID, Dial: func(ctx context.Context, addr string) (net.Conn, error) {
		n.dials.Add(1)
		n.c.mu.Lock()
		if p, ok := n.c.via[n.addr+" "+addr]; ok {
			addr = p
		}
		n.c.mu.Unlock()
		var d net.Dialer
		return d.DialContext(ctx, "tcp", addr)
	}})
	n.cfg.Mux = n.mux
	n.fatal.Store(nil)
	n.cfg.Fatal = func(err error) { n.fatal.Store(&err) }
	n.m = newMapMachine()
	n.cfg.Ledger = n.m.ledger
	g, err := start(n.cfg, n.m)
	if err != nil {
		n.mux.Close()
		return err
	}
	n.g = g
	n.c.t.Cleanup(n.crash)
	return nil
}

// start makes a group and starts it.
func start(cfg Config, m *mapMachine) (*Group, error) {
	g, err := New(cfg, m)
	if err == nil {
		err = g.Start()
	}
	return g, err
}

// crash stops the node without handing over.
func (n *testNode) crash() {
	if n.g != nil && !n.g.closing.Swap(true) {
		n.g.shutdown()
		n.mux.Close()
	}
}

// close stops the node in good order.
func (n *testNode) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	defer n.mux.Close()
	return n.g.Close(ctx)
}

func (n *testNode) running() bool { return n.g != nil && !n.g.closing.Load() }

// isolate cuts the node from all others; heal ends all faults.
func (c *testCluster) isolate(n *testNode, f linkfault.Faults) {
	for pair, p := range c.links {
		if pair[0] == n.n || pair[1] == n.n {
			p.Set(f)
		}
	}
}

func (c *testCluster) heal() {
	for _, p := range c.links {
		p.Set(linkfault.Faults{})
	}
}

// cutOff breaks the node's links while it leads, and has it decide what no other node gets.
func (n *testNode) cutOff(f linkfault.Faults, kv ...string) {
	n.c.t.Helper()
	for done := false; !done; { // on a busy machine it may lose its place before it decides
		n.c.heal()
		n.lead()
		n.c.isolate(n, f)
		done = n.m.set(kv...) == nil
	}
}

// leader waits for a serving leader other than the given nodes.
func (c *testCluster) leader(not ...*testNode) *testNode {
	c.t.Helper()
	var found *testNode
	require.Eventually(c.t, func() bool {
		for _, n := range c.nodes {
			if !n.running() || contains(not, n) {
				continue
			}
			if _, ok := n.g.Serving(); ok && n.m.leading() { // the machine hears of it a moment later
				found = n
				return true
			}
		}
		return false
	}, patience, 5*time.Millisecond, "no leader")
	return found
}

func contains(nodes []*testNode, n *testNode) bool {
	for _, o := range nodes {
		if o == n {
			return true
		}
	}
	return false
}

// write sets keys one batch after the other and waits until each is committed.
func (n *testNode) write(prefix string, count int) {
	n.c.t.Helper()
	for i := range count {
		n.set(fmt.Sprintf("%s%d", prefix, i), fmt.Sprint(i))
	}
}

// set decides and waits for the commit. On a busy machine leadership may have
// moved: the node gets it back first.
func (n *testNode) set(kv ...string) {
	n.c.t.Helper()
	for done := false; !done; {
		n.lead()
		if n.m.set(kv...) != nil {
			continue
		}
		n.m.ledger.Flush()
		n.committed()
		n.m.mu.Lock()
		done = n.m.shadow[kv[0]] == kv[1]
		n.m.mu.Unlock()
	}
}

// lead makes the node the leader.
func (n *testNode) lead() {
	n.c.t.Helper()
	waitFor(n.c.t, "the node leads", func() bool {
		if n.m.leading() {
			return true
		}
		l := n.c.leader()
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		return l == n || l.g.Transfer(ctx, n.cfg.NodeID) == nil && n.m.leading()
	})
}

// committed waits until everything decided is committed.
func (n *testNode) committed() {
	n.c.t.Helper()
	deadline := time.Now().Add(patience)
	for n.g.Unacked() > 0 {
		require.True(n.c.t, time.Now().Before(deadline), "not committed")
		time.Sleep(100 * time.Microsecond)
	}
}

// converge waits until all running nodes but the given ones hold the same
// table, equal to their applied prefix, and returns it.
func (c *testCluster) converge(not ...*testNode) map[string]string {
	c.t.Helper()
	c.leader(not...).committed()
	var table map[string]string
	require.Eventually(c.t, func() bool {
		table = nil
		for _, n := range c.nodes {
			if !n.running() || contains(not, n) {
				continue
			}
			if n.fatal.Load() != nil { // it will not, and says why below
				return true
			}
			n.m.mu.Lock()
			own, clean := maps.Clone(n.m.table), maps.Equal(n.m.table, n.m.shadow)
			n.m.mu.Unlock()
			if !clean || table != nil && !maps.Equal(table, own) {
				return false
			}
			table = own
		}
		return true
	}, patience, 10*time.Millisecond, "tables differ")
	for _, n := range c.nodes {
		if e := n.fatal.Load(); e != nil && n.running() {
			c.t.Fatalf("node %d stopped: %v", n.n, *e)
		}
	}
	return table
}

func waitFor(t testing.TB, what string, cond func() bool) {
	t.Helper()
	require.Eventually(t, cond, patience, 10*time.Millisecond, what)
}

func testContext(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// testMux returns a mux that listens, without a secret.
func testMux(t *testing.T) *peer.Mux {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	m := peer.NewMux(peer.MuxConfig{Listener: ln, Logger: slog.New(slog.DiscardHandler)})
	t.Cleanup(func() { m.Close() })
	return m
}

// closed reports that the far side closes c without a word.
func closed(t *testing.T, c net.Conn) {
	t.Helper()
	c.SetReadDeadline(time.Now().Add(patience))
	_, err := c.Read(make([]byte, 1))
	require.Error(t, err)
	require.NotErrorIs(t, err, os.ErrDeadlineExceeded)
}
