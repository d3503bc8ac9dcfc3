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

// metaClient is the entry of a node's metadata with its address for clients.
const metaClient = "client"

// Config configures a Node. The fields down to Fatal are required, except for Secrets.
type Config struct {
	NodeID  string
	DataDir string
	// Listener receives the connections of other nodes, with TLS if the peers use it. The
	// node closes it.
	Listener net.Listener
	// Dial connects to another node's Listener.
	Dial peer.DialFunc
	// Secrets are what nodes prove to know to each other. It is nil if their connections
	// use mutual TLS, or there is nothing to guard.
	Secrets peer.Secrets
	// ClientAddr is where clients reach this node: host:port.
	ClientAddr string
	// Fatal is called once, with the reason why the node cannot continue.
	Fatal func(error)
	// Logger receives what an operator should know.
	Logger *slog.Logger
	// Audit receives a line for each change of the cluster; nil is Logger.
	Audit *slog.Logger

	// PeerAddr is where other nodes reach Listener. If empty, it is Listener's own
	// address.
	PeerAddr string
	// Join, BootstrapExpect and Nonvoter are as in raftlog.Config.
	Join            []string
	BootstrapExpect int
	Nonvoter        bool

	// Settings are parameters that should have the same values on all nodes. SetSettings
	// replaces them.
	Settings []Setting

	// Durable makes replies wait for their commit unless a call has ASYNC.
	Durable bool
	// MaxUnacked is the age of the oldest uncommitted effect from which the failure
	// policy answers; 0 is the leader's lease.
	MaxUnacked time.Duration
	// HandoverWait is how long this node waits for the next leader after a leader has
	// announced its stop.
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
	// AwaitBatches returns when every batch of commands that has begun has ended,
	// including its jobs on workers, and Await has been called for its replies. If ctx is
	// done first, it returns ctx's error.
	AwaitBatches(ctx context.Context) error
	// Release completes the tickets up to upTo: their replies leave, or are replaced by
	// err.
	Release(upTo uint64, err error)
	// Recheck sends replies that have been held back for pace for long enough. It is
	// called repeatedly while the role is Waiting or Stalled.
	Recheck()
	// Deposed reports to the server that this node no longer decides. It forwards
	// commands to the next leader, or sends clients there.
	Deposed()
	// LeaderChanged reports another leader: commands go to it from now on. old is the one
	// before, empty for the first. If the leader's address for clients is empty, another
	// call reports it later.
	LeaderChanged(old, leader partition.TopologyNode)
	// LeaderLost reports that no leader is known any more.
	LeaderLost()
	// NoteHandover notes that a leader is about to hand over: commands on their way to it
	// wait for the outcome.
	NoteHandover()
}

const (
	// pace is the least time between two batches that no client waits for. If a key has
	// several calls in that time, only one state is sent. Every batch, however small,
	// costs the three nodes processor time. With 2 ms between batches, and the log in
	// bbolt, that was over a millisecond: a decision on one of a million keys took the
	// three nodes 3.8 µs instead of 2.6. It has not been measured with the present log. A
	// lost leader loses its decisions of one pace and one commit.
	pace = 20 * time.Millisecond
	// paceShare limits pace to this fraction of MaxUnacked.
	paceShare = 8

	// pulseInterval is how often a leader checks for effects and for the age of the
	// oldest. See Node.pulse.
	pulseInterval = 2 * time.Millisecond

	// idleInterval replaces pulseInterval after idleBeats checks have found nothing.
	idleInterval = 5 * time.Millisecond
	idleBeats    = 50

	// leastSleep is the shortest suspension of the machine, in ns, that counts as a
	// pause. It is well above the error of a reading.
	leastSleep = int64(time.Millisecond)

	// replyTimeout is the longest time for which a reply waits for its commit.
	replyTimeout = time.Second

	// refreshInterval is the time between two renewals of the view of the cluster when
	// nothing happens. Before the node has caught up, it is startInterval, and
	// startTimeout bounds the wait for the leader's answer.
	refreshInterval = 500 * time.Millisecond
	startInterval   = 50 * time.Millisecond
	startTimeout    = 200 * time.Millisecond
)
