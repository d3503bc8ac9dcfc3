package cluster

import (
	"context"
	"log/slog"
	"net"
	"time"

	"github.com/headgate-io/headgate/cluster/partition"
	"github.com/headgate-io/headgate/raftlog"
	"github.com/headgate-io/headgate/raftlog/peer"
)

// group is the one Raft group of a process.
const group = 0

// metaClient is the entry of a node's metadata with the address of its clients.
const metaClient = "client"

// Config configures a Node. Everything up to Fatal but Secrets is
// required.
type Config struct {
	NodeID  string
	DataDir string
	// Listener receives the connections of other nodes; with TLS, if the
	// peers use it. The node closes it.
	Listener net.Listener
	// Dial connects to another node's Listener.
	Dial peer.DialFunc
	// Secrets are what nodes prove to each other; nil if their connections
	// are of mutual TLS, or there is nothing to guard.
	Secrets peer.Secrets
	// ClientAddr is where clients reach this node: host:port.
	ClientAddr string
	// Fatal is called once, with the reason why the node cannot go on.
	Fatal func(error)
	// Logger receives what an operator should know.
	Logger *slog.Logger
	// Audit receives a line for each change of the cluster; nil is Logger.
	Audit *slog.Logger

	// PeerAddr is where other nodes reach Listener; its own address when
	// empty.
	PeerAddr string
	// Join, BootstrapExpect and Nonvoter are as in raftlog.Config.
	Join            []string
	BootstrapExpect int
	Nonvoter        bool

	// Settings are what this node and the others should be configured alike in.
	// SetSettings replaces them.
	Settings []Setting

	// Durable makes replies wait for their commit unless a call says ASYNC.
	Durable bool
	// MaxUnacked is the age of the oldest effect that is not committed from
	// which the failure policy answers; 0 is the leader's lease.
	MaxUnacked time.Duration
	// HandoverWait is how long this node waits for the next leader when the
	// last one has announced its stop.
	HandoverWait time.Duration

	// Timeouts, StallTimeout, NoSync, SnapshotEntries and SnapshotBytes are as
	// in raftlog.Config.
	Timeouts        raftlog.Timeouts
	StallTimeout    time.Duration
	NoSync          bool
	SnapshotEntries uint64
	SnapshotBytes   int64
}

// Front is what a node calls on its partition. Only AwaitBatches may block.
type Front interface {
	// AwaitBatches returns when every batch of commands that had begun has ended,
	// with its jobs on workers, and Await has been called for its replies. It
	// returns ctx's error when that takes too long.
	AwaitBatches(ctx context.Context) error
	// Release completes the tickets up to upTo: their replies leave, or
	// become err.
	Release(upTo uint64, err error)
	// Recheck sends the replies that were held for pace, and have been for long
	// enough. It is called again and again while the role is Waiting or
	// Stalled.
	Recheck()
	// Deposed reports to the server that this node decides no more: commands are
	// forwarded to the next leader, or clients are sent there.
	Deposed()
	// LeaderChanged reports another leader: commands go to it from now on. old is
	// the one before, empty for the first. The address for clients may be empty
	// too; another call then reports it.
	LeaderChanged(old, leader partition.TopologyNode)
	// LeaderLost reports that no leader is known any more.
	LeaderLost()
	// NoteHandover notes that a leader is about to hand over: commands on their
	// way to it wait for the outcome.
	NoteHandover()
}

const (
	// pace is the least time between two batches that no client waits for: of
	// calls on one key in that time one state travels. A batch costs the three
	// nodes processor time however small it is. With 2 ms between batches, and the
	// log in bbolt, that was over a millisecond: a decision on one of a million
	// keys took the three 3.8 µs instead of 2.6. It has not been measured with the
	// log of today. A lost leader loses its decisions of a pace and a commit.
	pace = 20 * time.Millisecond
	// paceShare of MaxUnacked is the most that a pace may be.
	paceShare = 8

	// pulseInterval is how often a leader looks for effects and at the age of
	// the oldest. See Node.pulse.
	pulseInterval = 2 * time.Millisecond

	// idleInterval replaces it when idleBeats have found nothing.
	idleInterval = 5 * time.Millisecond
	idleBeats    = 50

	// leastSleep is the shortest suspension of the machine that counts as a
	// pause, in ns: well above what a reading can be off.
	leastSleep = int64(time.Millisecond)

	// replyTimeout is how long a reply waits for its commit at most.
	replyTimeout = time.Second

	// refreshInterval is the time between two renewals of the view of the cluster
	// when nothing happens. startInterval is that time while the node has yet to
	// catch up; startTimeout bounds the wait for the leader's answer then.
	refreshInterval = 500 * time.Millisecond
	startInterval   = 50 * time.Millisecond
	startTimeout    = 200 * time.Millisecond
)
