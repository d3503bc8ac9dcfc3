package member

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"
)

// network connects the nodes of a test by calls, in the time of a bubble.
type network struct {
	t      *testing.T
	expect int

	mu sync.Mutex
	up map[string]*testNode // by address
}

// testNode is a node that waits for a cluster, and what Raft has been told.
type testNode struct {
	net       *network
	addr      string
	id        *Identity
	store     raft.StableStore
	convener  *Convener
	log       bytes.Buffer // read when the bubble is idle
	bootstrap raft.Configuration
	stop      context.CancelFunc
	refused   error // by Run
}

var _ Node = (*testNode)(nil)

// node makes a node, not running, whose address is its id.
func (n *network) node(id string, join ...string) *testNode {
	return n.nodeAt(id, id, n.expect, join...)
}

// nodeAt makes a node, not running, that expects a number of founders.
func (n *network) nodeAt(addr, id string, expect int, join ...string) *testNode {
	node := &testNode{net: n, addr: addr, store: values(n.t)}
	logger := slog.New(slog.NewTextHandler(&node.log, nil))
	var err error
	node.id, err = Open(node.store, id, 1, false, logger)
	require.NoError(n.t, err)
	node.convener = NewConvener(ConvenerConfig{NodeID: id, Addr: addr, Join: join, Expect: expect, Logger: logger}, node)
	return node
}

// runAll runs nodes for as long as it takes them to say why they wait.
func (n *network) runAll(nodes ...*testNode) {
	for _, node := range nodes {
		n.run(node)
	}
	time.Sleep(2 * waitingInterval)
	synctest.Wait()
}

// run lets others reach a node, which begins to look for a cluster.
func (n *network) run(node *testNode) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.up[node.addr] = node
	ctx, stop := context.WithCancel(n.t.Context())
	node.stop = stop
	go func() { _, node.refused = node.convener.Run(ctx) }()
}

// crash ends a node.
func (n *network) crash(node *testNode) {
	node.stop()
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.up, node.addr)
}

func (n *testNode) Identity() *Identity { return n.id }

func (n *testNode) Settled() bool { return len(n.bootstrap.Servers) > 0 }

func (n *testNode) Greet(_ context.Context, addr string, g Greeting) (Answer, error) {
	n.net.mu.Lock()
	to := n.net.up[addr]
	n.net.mu.Unlock()
	if to == nil {
		return Answer{}, errors.New("connection refused")
	}
	return to.convener.Answer(g)
}

func (n *testNode) Join(context.Context, string) error { return errors.New("no leader yet") }

func (n *testNode) Bootstrap(_ context.Context, members raft.Configuration) error {
	n.bootstrap = members
	return nil
}

// says fails the test unless a node has logged every text in what.
func (n *testNode) says(what ...string) {
	n.net.t.Helper()
	synctest.Wait()
	for _, w := range what {
		require.Contains(n.net.t, n.log.String(), w)
	}
}

// foundingOf is a founding by n0, n1 and n2, of which n is here.
func foundingOf(proposer string, n *testNode) founding {
	token, _ := n.id.free()
	f := founding{ID: "x", Proposer: proposer}
	for i := range 3 {
		id := fmt.Sprintf("n%d", i)
		o := founder{id, id, "data of " + id, "t"}
		if id == n.id.Node() {
			o.Data, o.Token = n.id.Data(), token
		}
		f.Founders = append(f.Founders, o)
	}
	return f
}

var four = []string{"n0", "n1", "n2", "n3"}

// inBubble runs f with a network whose nodes expect to be three founders.
func inBubble(t *testing.T, f func(t *testing.T, n *network)) {
	synctest.Test(t, func(t *testing.T) {
		f(t, &network{t: t, expect: 3, up: make(map[string]*testNode)})
	})
}

func TestThreeFoundACluster(t *testing.T) {
	inBubble(t, func(t *testing.T, net *network) {
		var nodes []*testNode
		for _, id := range four[:3] {
			n := net.node(id, four[:3]...)
			nodes = append(nodes, n)
			net.run(n)
		}
		time.Sleep(5 * time.Second)
		synctest.Wait()
		for _, n := range nodes {
			require.Len(t, n.bootstrap.Servers, 3)
			require.Equal(t, nodes[0].bootstrap, n.bootstrap)
			require.NotEmpty(t, n.id.Cluster())
			require.Equal(t, nodes[0].id.Cluster(), n.id.Cluster())
		}
	})
}

// A founder that has answered, and dies before it accepts, is given up, and the
// others found the cluster without it. So is a proposer that dies when it has
// been accepted by some.
func TestFounderThatDoesNotAnswer(t *testing.T) {
	for _, proposer := range []string{"n0", "n1"} {
		t.Run(proposer, func(t *testing.T) {
			inBubble(t, func(t *testing.T, net *network) {
				n := net.node("n1", four...)
				f := foundingOf(proposer, n)
				if proposer == "n1" {
					require.NoError(t, n.id.propose(f))
				} else {
					_, err := n.id.hear(word{f, "n0", nil}, 3)
					require.NoError(t, err)
				}
				require.Equal(t, "x", n.id.Founding())
				net.run(n)
				// n2 has other data than the founding says, so it cannot know.
				net.run(net.node("n2", four...))
				net.run(net.node("n3", four...))
				_, s, _ := n.id.bound()
				require.Equal(t, accepted, s)
				time.Sleep(founderPatience + time.Second)
				synctest.Wait()
				_, s, _ = n.id.bound()
				require.Equal(t, abandoned, s, "it votes")
				require.Equal(t, "x", n.id.Founding(), "one vote of three ends nothing")
			})
		})
	}
}

// A node that was started with another number of groups than its cluster stops.
func TestAClusterOfOtherGroupsIsNotJoined(t *testing.T) {
	inBubble(t, func(t *testing.T, net *network) {
		member, n := net.node("n0", four[:2]...), net.node("n1", four[:2]...)
		member.convener.cfg.Groups = 12
		require.NoError(t, member.id.Adopt("x"))
		net.run(member)
		net.run(n)
		time.Sleep(time.Second)
		synctest.Wait()
		require.ErrorIs(t, n.refused, ErrGroups)
		require.ErrorContains(t, n.refused, "n0 has 12, and this node has 1")
	})
}

// Nodes that wait name those they wait for, and why.
func TestWaitingFoundersSayWhy(t *testing.T) {
	t.Run("too few, one of them dead", func(t *testing.T) {
		inBubble(t, func(t *testing.T, net *network) {
			dead, n := net.node("n0", four[:3]...), net.node("n1", four[:3]...)
			net.run(dead)
			net.run(n)
			time.Sleep(time.Second) // they know of each other
			net.crash(dead)
			time.Sleep(2 * waitingInterval)
			n.says("1 of 3 founders are up: n1", "n0 (n0) was last heard", "n2 has never answered")
		})
	})
	t.Run("different numbers", func(t *testing.T) {
		inBubble(t, func(t *testing.T, net *network) {
			other, n := net.nodeAt("n0", "n0", 2, four[:3]...), net.node("n1", four[:3]...)
			net.runAll(other, n, net.node("n2", four[:3]...))
			n.says("bootstrap-expect is 2 on n0", "and 3 on this node")
		})
	})
	t.Run("different numbers of groups", func(t *testing.T) {
		inBubble(t, func(t *testing.T, net *network) {
			other, n := net.node("n0", four[:3]...), net.node("n1", four[:3]...)
			other.convener.cfg.Groups = 12
			net.runAll(other, n, net.node("n2", four[:3]...))
			n.says(ErrGroups.Error(), "n0 has 12, and this node has 1")
			other.says(ErrGroups.Error(), "n1 has 1, and this node has 12")
			require.Empty(t, n.id.Cluster())
			require.Empty(t, other.id.Cluster())
		})
	})
	t.Run("group 0 in another cluster", func(t *testing.T) {
		inBubble(t, func(t *testing.T, net *network) {
			other, n := net.node("n0", four[:3]...), net.node("n1", four[:3]...)
			other.convener.cfg.Within, n.convener.cfg.Within = "a", "b"
			net.runAll(other, n)
			n.says("group 0 of n0 (n0) is in another cluster")
			third := net.node("n2", four[:3]...)
			third.convener.cfg.Within = "b"
			fourth := net.node("n3", four...)
			fourth.convener.cfg.Within = "b"
			net.runAll(third, fourth)
			require.Empty(t, other.id.Cluster())
			require.Empty(t, other.id.Founding())
			require.NotEmpty(t, n.id.Cluster(), "with those of its cluster")
		})
	})
	t.Run("two of one id", func(t *testing.T) {
		inBubble(t, func(t *testing.T, net *network) {
			nodes := []*testNode{net.node("n0", four[:3]...), net.node("n1", four[:3]...), net.nodeAt("n2", "n0", 3, four[:3]...)}
			net.runAll(nodes...)
			nodes[1].says("n0 waits at two addresses", ErrTwice.Error())
			for _, n := range nodes {
				require.Empty(t, n.id.Cluster())
			}
		})
	})
	t.Run("fewer than half", func(t *testing.T) {
		inBubble(t, func(t *testing.T, net *network) {
			var nodes []*testNode
			six := append(four[:4:4], "n4", "n5")
			for _, id := range six {
				nodes = append(nodes, net.node(id, six...))
			}
			net.runAll(nodes...)
			nodes[0].says("bootstrap-expect is 3, and must be more than half of the 6 nodes")
			for _, n := range nodes {
				require.Empty(t, n.id.Cluster())
			}
		})
	})
	t.Run("none may found", func(t *testing.T) {
		inBubble(t, func(t *testing.T, net *network) {
			n := net.nodeAt("n0", "n0", 0, four[:2]...)
			net.runAll(n, net.nodeAt("n1", "n1", 0, four[:2]...))
			n.says("n1 (n1) is also in no cluster", "bootstrap-expect is 0")
		})
	})
	t.Run("undecided", func(t *testing.T) {
		inBubble(t, func(t *testing.T, net *network) {
			n := net.node("n2", four[:3]...)
			net.run(n)
			f := foundingOf("n0", n)
			_, err := n.convener.Answer(Greeting{presence{founder: f.Founders[0]}, &word{f, "n0", nil}})
			require.NoError(t, err)
			time.Sleep(waitingInterval)
			n.says("does not know whether the cluster was founded", "proposed by n0", "no answer yet from [n0 (n0) n1")
			again, err := Open(n.store, "n2", 1, false, slog.New(slog.DiscardHandler))
			require.NoError(t, err)
			require.Equal(t, "x", again.Founding(), "it has promised that")
		})
	})
}
