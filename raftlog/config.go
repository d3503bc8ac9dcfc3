package raftlog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/hashicorp/raft"

	"github.com/headgate-io/headgate/ledger"
	"github.com/headgate-io/headgate/raftlog/clock"
	"github.com/headgate-io/headgate/raftlog/disk"
	"github.com/headgate-io/headgate/raftlog/member"
	"github.com/headgate-io/headgate/raftlog/peer"
)

// Timeouts are Raft's timeouts. Lease <= Heartbeat <= Election must hold.
type Timeouts struct {
	Heartbeat time.Duration // silence of the leader after which a follower stands for election
	Election  time.Duration // silence of the voters after which a candidate tries again
	Lease     time.Duration // silence of a majority after which a leader steps down
}

// Heartbeats wait for a follower's disk writes (see RAFT.md). So the timeouts must be
// much longer than a slow fsync.
var (
	// Fast is for machines in one data center with fast disks. After a crash, a new leader
	// decides after about 1.0 s (p90 1.3 s).
	Fast = Timeouts{Heartbeat: 500 * time.Millisecond, Election: 500 * time.Millisecond, Lease: 250 * time.Millisecond}

	// Slow is for slow disks and long distances. After a crash, a new leader decides after
	// about 2.0 s (p90 2.5 s).
	Slow = Timeouts{Heartbeat: time.Second, Election: time.Second, Lease: 500 * time.Millisecond}
)

// Handler answers a control request of a peer: see Config.Handlers.
type Handler func(ctx context.Context, args json.RawMessage) (any, error)

// Config configures a Group. NodeID, DataDir, Mux and Fatal are required; Recover needs
// only the first two.
type Config struct {
	// GroupID distinguishes the groups of a process, on the wire and on disk.
	GroupID uint32

	// Groups is how many groups the cluster has; 0 means 1. All nodes of a cluster have the
	// same number, and it never changes. The node's data holds it: see Groups.
	Groups int

	// Within is the id of the cluster to which this node's group 0 belongs. It is empty for
	// group 0. The other groups are founded and joined only by nodes of one such cluster.
	Within string

	// NodeID is this node's permanent name, of at most 64 bytes. A node that has lost its
	// data may return with the same name. The leader then first withdraws the vote of the
	// lost data.
	NodeID string

	// DataDir holds the group's files, in a directory named after the group.
	DataDir string

	// Mux carries the peer connections. The caller closes it, after the group.
	Mux *peer.Mux

	// Advertise is the address at which peers reach this node. If it is empty, that is the
	// mux's own address.
	Advertise string

	// BootstrapExpect is how many voters found a new cluster. If Join is empty, 0 means 1.
	// If Join is set, 0 means that this node never founds a cluster. A node that has state
	// ignores BootstrapExpect. So the same value is right for the first start, for a
	// restart, and when the cluster grows.
	BootstrapExpect int

	// Join lists peers' addresses; the node's own may be among them.
	Join []string

	// Nonvoter makes the node a spare: it follows, but never becomes a voter automatically.
	Nonvoter bool

	// Features lists the feature levels that this build can read and write, beginning with
	// level 1. Each element says which formats the level permits. A level of a release
	// never changes. If Features is empty, there is one level, with the oldest formats.
	Features []Formats

	// Meta is what this node tells its peers about itself, such as its address for clients;
	// see Member. Group.SetMeta replaces it.
	Meta map[string]string

	// Timeouts is Fast when zero.
	Timeouts Timeouts

	// Ledger is the ledger that the group shares with the machine. It may be nil for a
	// machine that makes no cuts, as in Recover.
	Ledger *ledger.Ledger

	// Pace is the shortest time between two cuts, at most 60 ms. A cut takes all effects
	// that are not yet in the log and makes a batch of them. If Pace is 0, the next cut is
	// made when Raft has accepted the previous batch. A cut that somebody waits for
	// (Ledger.Flush) ignores the pace.
	Pace time.Duration

	// MaxEntry bounds one log entry, header included; 256 KiB when 0.
	MaxEntry int

	// NoSync leaves the writing of the log to the operating system. Log entries then
	// survive a crash of the process, but not a crash of the machine. After a power loss,
	// the node's data must be wiped, and the node must join again.
	NoSync bool

	// SnapshotEntries and SnapshotBytes say how much log is written before the next
	// snapshot. The number of entries is checked every two to four minutes, and the number
	// of bytes every second. 0 means 65536 entries and 256 MiB.
	SnapshotEntries uint64
	SnapshotBytes   int64

	// PromoteAfter is how long a joined node must have kept up before it gets a vote; 0
	// means 10 s.
	PromoteAfter time.Duration

	// StallTimeout bounds the age of a leader's oldest uncommitted batch. If the batch is
	// older, the leader hands leadership over, or stops if it cannot. StallTimeout also
	// bounds the time of a log write on any node. If a write takes longer, the node stops.
	// 0 means 10 s.
	StallTimeout time.Duration

	// OnLeader is called after the known leader has changed; id and addr are empty while no
	// leader is known. heard is when this node last heard from the previous leader. It is zero
	// if there was no previous leader. The calls come one after the other. OnLeader may call
	// the group.
	OnLeader func(id, addr string, heard time.Time)

	// Handlers answer control requests, by name: see Group.Call. They take precedence
	// over the group's own operations.
	Handlers map[string]Handler

	// Fatal is called once, on a new goroutine, when the node cannot continue. The group
	// has then deposed itself. It applies nothing more, and takes no part in the cluster.
	// Fatal should end the process, or call Close and then Open again.
	Fatal func(error)

	// Logger is slog.Default when nil.
	Logger *slog.Logger
	// Audit gets a line for each requested change of the cluster. If it is nil, Logger gets
	// the lines.
	Audit *slog.Logger

	// wrapLog lets tests put a failing disk under the log.
	wrapLog func(raft.LogStore) raft.LogStore
	// trailing is trailingBytes, or less in tests.
	trailing int64

	// wall lets tests set the wall clock, in unix ns.
	wall func() int64
}

// Defaults of a Config's fields.
const (
	DefaultSnapshotEntries = 65536
	DefaultSnapshotBytes   = 256 << 20
	DefaultStallTimeout    = 10 * time.Second
	defaultPromoteAfter    = 10 * time.Second
	defaultMaxEntry        = 256 << 10
)

// MaxGroups bounds Config.Groups.
const MaxGroups = 1024

const (
	maxPace     = 60 * time.Millisecond
	minMaxEntry = 1 << 10

	// At most one batch is cut and not yet committed. Decisions made meanwhile wait in
	// memory and make the next batch larger. Each batch, even a small one, costs every disk
	// a write and a sync, and wakes every node. With two batches in flight, batches are
	// smaller and more numerous. This gave 0.6 to 1.0 times the rate of sync decisions
	// (three nodes on one disk, 50 connections, pipeline 16).
	maxInflightBatches = 1
	maxInflightBytes   = 8 << 20

	// snapshotInterval is how often Raft checks whether the log has enough entries for a
	// snapshot. It waits for one to two intervals.
	snapshotInterval = 120 * time.Second

	// tickInterval is how long the cluster clock in the log may stand still on an idle
	// leader.
	tickInterval = clock.Beat
)

// withDefaults returns c with defaults for its zero values, or an error that names the
// wrong field.
func (c Config) withDefaults() (Config, error) {
	if err := member.CheckNodeID(c.NodeID); err != nil {
		return c, err
	}
	if c.DataDir == "" {
		return c, errors.New("data directory is required")
	}
	if c.Advertise == "" && c.Mux != nil {
		c.Advertise = c.Mux.Addr().String()
	}
	if c.BootstrapExpect < 0 {
		return c, errors.New("bootstrap expect is negative")
	}
	if c.BootstrapExpect == 0 && len(c.Join) == 0 && !c.Nonvoter {
		c.BootstrapExpect = 1
	}
	if c.BootstrapExpect > 1 && len(c.Join) == 0 {
		return c, fmt.Errorf("bootstrap expect %d needs addresses to join", c.BootstrapExpect)
	}
	if c.BootstrapExpect > 0 && c.Nonvoter {
		return c, errors.New("a nonvoter cannot found a cluster")
	}
	if c.Pace < 0 || c.Pace > maxPace {
		return c, fmt.Errorf("pace %v: want 0 to %v", c.Pace, maxPace)
	}
	if c.Ledger == nil {
		c.Ledger = ledger.New(ledger.Hooks{})
	}
	if c.Timeouts == (Timeouts{}) {
		c.Timeouts = Fast
	}
	setDefault(&c.Groups, 1)
	if c.Groups < 1 || c.Groups > MaxGroups || c.GroupID >= uint32(c.Groups) {
		return c, fmt.Errorf("group %d of %d: a cluster has 1 to %d groups", c.GroupID, c.Groups, MaxGroups)
	}
	if len(c.Features) == 0 {
		c.Features = firstFormats
	}
	if err := checkFeatures(c.Features); err != nil {
		return c, err
	}
	setDefault(&c.MaxEntry, defaultMaxEntry)
	setDefault(&c.SnapshotEntries, DefaultSnapshotEntries)
	setDefault(&c.SnapshotBytes, DefaultSnapshotBytes)
	setDefault(&c.trailing, trailingBytes)
	setDefault(&c.PromoteAfter, defaultPromoteAfter)
	setDefault(&c.StallTimeout, DefaultStallTimeout)
	if c.MaxEntry < minMaxEntry || c.MaxEntry > maxInflightBytes {
		return c, fmt.Errorf("max entry %d: want %d to %d bytes", c.MaxEntry, minMaxEntry, maxInflightBytes)
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if c.Audit == nil {
		c.Audit = c.Logger
	}
	c.Logger = c.Logger.With("group", c.GroupID, "node", c.NodeID)
	return c, raft.ValidateConfig(c.raftConfig(raft.ServerID(c.NodeID)))
}

func setDefault[T comparable](p *T, v T) {
	var zero T
	if *p == zero {
		*p = v
	}
}

// dir returns the directory of the group's files.
func (c *Config) dir() string { return groupDir(c.DataDir, c.GroupID) }

func groupDir(dataDir string, group uint32) string {
	return filepath.Join(dataDir, fmt.Sprintf("group-%d", group))
}

// HasRun reports whether a node has run with a data directory, for its group.
func HasRun(dataDir string, group uint32) bool {
	return disk.Used(groupDir(dataDir, group))
}

// Groups returns how many groups the cluster has to which the data in a data directory
// belongs. It returns 0 if the data belongs to no cluster yet. A running node may use the
// directory.
func Groups(dataDir string) (int, error) { return disk.Groups(groupDir(dataDir, 0)) }

// raftConfig returns Raft's own configuration. The reasons for its numbers are
// in DESIGN.md.
func (c *Config) raftConfig(self raft.ServerID) *raft.Config {
	rc := raft.DefaultConfig()
	rc.LocalID = self
	rc.HeartbeatTimeout = c.Timeouts.Heartbeat
	rc.ElectionTimeout = c.Timeouts.Election
	rc.LeaderLeaseTimeout = c.Timeouts.Lease
	rc.CommitTimeout = 50 * time.Millisecond
	if c.GroupID > 0 {
		rc.CommitTimeout = 250 * time.Millisecond // policies and scripts, which all nodes use, are in group 0
	}
	rc.MaxAppendEntries = 64
	rc.BatchApplyCh = false // entries of an old leadership must not survive in a buffer across a flap
	rc.ShutdownOnRemove = false
	rc.SnapshotInterval = snapshotInterval
	rc.SnapshotThreshold = c.SnapshotEntries
	rc.TrailingLogs = maxTrailing
	rc.NoLegacyTelemetry = true
	rc.Logger = newRaftLogger(c.Logger)
	return rc
}
