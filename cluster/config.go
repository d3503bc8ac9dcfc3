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

// Entries of a node's metadata: its addresses for clients, and for clients of Redis Cluster.
const (
	metaClient  = "client"
	metaCluster = "cluster"
)

// Config configures a Node. The fields down to Fatal are required, except for Secrets.
type Config struct {
	NodeID  string
	DataDir string
	// Listener receives the connections of other nodes, with TLS if the peers use it. The
	// node closes it.
	Listener net.Listener
	// Dial connects to another node's Listener.
	Dial peer.DialFunc
	// Secrets are the secrets that a node must know to connect to another node. It is nil
	// if the connections use mutual TLS, or if there is nothing to protect.
	Secrets peer.Secrets
	// ClientAddr is where clients reach this node: host:port.
	ClientAddr string
	// ClusterAddr is where clients of Redis Cluster reach this node: host:port. It is empty
	// if they use ClientAddr.
	ClusterAddr string
	// Fatal is called once, with the reason why the node cannot continue.
	Fatal func(error)
	// Logger receives what an operator should know.
	Logger *slog.Logger
	// Audit gets a line for each change of the cluster. If it is nil, Logger gets the
	// lines.
	Audit *slog.Logger

	// PeerAddr is the address at which other nodes reach Listener. If PeerAddr is empty,
	// other nodes use Listener's own address.
	PeerAddr string
	// Join, BootstrapExpect and Nonvoter are as in raftlog.Config.
	Join            []string
	BootstrapExpect int
	Nonvoter        bool

	// Settings are parameters that should have the same values on all nodes. SetSettings
	// replaces them.
	Settings []Setting

	// Durable makes replies wait for their commit, except replies of calls with ASYNC.
	Durable bool
	// MaxUnacked is how old the oldest uncommitted effect may become. If the effect is
	// older, the failure policy answers. 0 means the duration of the leader's lease.
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

// Front is what a group calls on its partition. Only AwaitBatches may block.
type Front interface {
	// AwaitBatches waits until all batches of commands that have begun have ended,
	// including their jobs on workers, and have called Await for their replies. If ctx is
	// done first, it returns ctx's error.
	AwaitBatches(ctx context.Context) error
	// Release completes the tickets up to upTo. A ticket numbers a commit: the replies that
	// wait for these tickets are sent, or are replaced by err if it is not nil.
	Release(upTo uint64, err error)
	// Recheck sends replies that were delayed only to slow clients down, if they have
	// waited for long enough. The group calls it repeatedly while its role is Waiting or
	// Stalled.
	Recheck()
	// Deposed tells the server that this node no longer decides. The server then forwards
	// commands to the next leader, or sends clients there.
	Deposed()
	// LeaderChanged reports another leader, which gets the commands from now on. old is the
	// previous leader; it is empty if there was none. If the new leader's address for
	// clients is empty, another call reports the address later.
	LeaderChanged(old, leader partition.TopologyNode)
	// LeaderLost reports that no leader is known any more.
	LeaderLost()
	// SeeTerm reports that a term has a leader. The group ignores its result.
	SeeTerm(term uint64) uint64
	// NoteHandover notes that a leader is about to hand over. Commands on their way to this
	// leader wait for the outcome.
	NoteHandover()
}

const (
	// pace is the shortest time between two batches of the only group of a process, if no
	// client waits for the second batch. If a key is charged several times in that time,
	// only its last state is sent. Every batch, even a small one, costs the three nodes about
	// a millisecond of processor time. If the leader is lost, the decisions of one pace and
	// one commit are lost.
	pace = 20 * time.Millisecond
	// paceGroups is for a process with several groups: their pace is longer by their number,
	// at most by this factor. So the groups that a node leads make about as many batches
	// together as one group. A lost node loses about as many decisions as the leader of one
	// group: it led a third of the keys, for three times as long. GROUPS.md has measurements.
	paceGroups = 3
	// paceShare limits the pace to this fraction of MaxUnacked.
	paceShare = 4

	// pulseInterval is how often a leader checks for effects and for the age of the
	// oldest. See Node.pulse.
	pulseInterval = 2 * time.Millisecond

	// idleInterval replaces pulseInterval after idleBeats checks have found nothing.
	idleInterval = 5 * time.Millisecond
	idleBeats    = 50

	// leastSleep is the shortest suspension of the machine, in ns, that counts as a pause.
	// It is well above the error of reading two clocks.
	leastSleep = int64(time.Millisecond)

	// replyTimeout is the longest time for which a reply waits for its commit.
	replyTimeout = time.Second

	// refreshInterval is the time between two updates of the node's view of the cluster if
	// nothing happens. Before the node has caught up, the time is startInterval, and
	// startTimeout bounds the first wait for the leader's answer. Each next wait may take
	// twice as long, up to startPatience: nodes of a busy cluster answer slowly.
	refreshInterval = 500 * time.Millisecond
	startInterval   = 50 * time.Millisecond
	startTimeout    = 200 * time.Millisecond
	startPatience   = 2 * time.Second
)
