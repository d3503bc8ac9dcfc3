package raftlog

import (
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/raft"

	"github.com/headgate-io/headgate/internal/boottime"
	"github.com/headgate-io/headgate/raftlog/clock"
	"github.com/headgate-io/headgate/raftlog/member"
)

// Place says about which group of which cluster a Status is.
type Place struct {
	GroupID uint32 `json:"group"`
	Groups  int    `json:"groups"`           // how many groups the cluster has
	Within  string `json:"within,omitempty"` // Config.Within
}

// Status describes a node, and what the node knows of its cluster. It is sent as JSON.
type Status struct {
	Place
	NodeID    string            `json:"node"`
	Addr      string            `json:"addr"`
	Meta      map[string]string `json:"meta,omitempty"`
	WantsVote bool              `json:"wants_vote"`
	DataID    string            `json:"data_id"`    // random id, made with the data directory
	ClusterID string            `json:"cluster_id"` // random id, made with the cluster; empty before there is a cluster
	Founding  string            `json:"founding"`   // id of the cluster whose founding the node has accepted, if any

	State      string `json:"state"` // leader, follower, candidate, shutdown, or halted
	Halted     string `json:"halted,omitempty"`
	Term       uint64 `json:"term"`
	Serving    bool   `json:"serving"`
	LeaderID   string `json:"leader"`
	LeaderAddr string `json:"leader_addr"`

	LastIndex     uint64    `json:"last_index"`
	CommitIndex   uint64    `json:"commit_index"`
	AppliedIndex  uint64    `json:"applied_index"` // the machine has applied all entries up to here
	Dropped       uint64    `json:"dropped"`       // log entries that all nodes dropped: see DESIGN.md
	SnapshotIndex uint64    `json:"snapshot_index"`
	SnapshotTime  time.Time `json:"snapshot_time"`  // zero without a snapshot
	SinceSnapshot int64     `json:"since_snapshot"` // bytes of log that this process has written after the snapshot

	// DiskFull reports that the node is its cluster's only member and that its disk is
	// full, so that its new decisions are only in memory.
	DiskFull      bool      `json:"disk_full"`
	DiskFullSince time.Time `json:"disk_full_since"` // zero unless DiskFull

	Clock int64 `json:"clock"` // cluster clock of the last applied entry, unix ns
	Wall  int64 `json:"wall"`  // this node's wall clock, unix ns

	// ClockUnset reports that the cluster clock continued from its last value, because no
	// node knew how long the cluster was down. The clock is behind until an operator sets
	// it.
	ClockUnset  bool         `json:"clock_unset"`
	ClockReport clock.Report `json:"clock_report"`

	Progress     Progress      `json:"progress"`
	Batches      uint64        `json:"batches"` // batches that this node has cut, without clock ticks
	Ticks        uint64        `json:"ticks"`
	Entries      uint64        `json:"entries"`       // parts of Batches
	PayloadBytes uint64        `json:"payload_bytes"` // payload bytes of Batches
	LastBatch    int64         `json:"last_batch"`    // bytes of the last batch
	WriteLast    time.Duration `json:"write_last"`    // duration of the last log write, including the sync
	WriteMean    time.Duration `json:"write_mean"`    // moving average of the durations of log writes

	Level       uint32     `json:"level"`               // the cluster's feature level, as of the last applied entry
	Supports    uint32     `json:"supports"`            // this node can read levels 1 to Supports
	NewestLevel uint32     `json:"newest_level"`        // the highest level that some member can read
	HeldBack    []HeldBack `json:"held_back,omitempty"` // why Level is not NewestLevel

	MembershipIndex uint64   `json:"membership_index"` // log index of the last committed change of the members
	Removed         bool     `json:"removed"`          // this node knows that it has been removed
	Members         []Member `json:"members"`
}

// Member is one node of the cluster, as another node sees it.
type Member struct {
	ID      string            `json:"id"`
	Addr    string            `json:"addr"`
	DataID  string            `json:"data_id"` // id of the data with which the node became a member
	Voter   bool              `json:"voter"`
	Waits   bool              `json:"waits"` // a nonvoter that gets a vote when it has kept up for Config.PromoteAfter
	Leader  bool              `json:"leader"`
	Self    bool              `json:"self"`
	Up      bool              `json:"up"`             // the member answered this node's last question, in the last few seconds
	Lost    bool              `json:"lost"`           // the member answers, but has lost the data with which it became a member: add it again
	Seen    time.Time         `json:"seen"`           // time of the last answer; zero if there was no answer yet
	Applied uint64            `json:"applied"`        // last applied entry, as of Seen
	Lag     uint64            `json:"lag"`            // entries behind this node's commit index, as of Seen
	LagTime time.Duration     `json:"lag_time"`       // the lag as cluster time; while the cluster is idle, it is exact only to a second
	RTT     time.Duration     `json:"rtt"`            // round-trip time of the last answer
	Skew    time.Duration     `json:"skew"`           // the member's wall clock at Seen minus this node's wall clock; exact to RTT/2
	Meta    map[string]string `json:"meta,omitempty"` // the member's Config.Meta

	Supports uint32 `json:"supports"` // the member's build can read levels 1 to Supports; 0 until the member has answered

	// HeldTerm and HeldIndex are the highest term and applied entry that the member has
	// reported since this node was started.
	HeldTerm  uint64 `json:"held_term"`
	HeldIndex uint64 `json:"held_index"`
}

// applied returns the last entry that the machine has applied. Raft's AppliedIndex also
// counts entries that still wait in the fsm's queue. During a replay these are thousands.
// Raft does not pass its own entries, such as barriers, to the fsm. They are applied as
// soon as Raft has passed over them.
func (g *Group) applied(in *instance) uint64 {
	done, passed := g.fsm.last.Load(), in.raft.AppliedIndex()
	for ; done < passed; done++ {
		var l raft.Log
		if err := in.log.Find(done+1, &l); err != nil || l.Type == raft.LogCommand || l.Type == raft.LogConfiguration {
			break
		}
	}
	return done
}

// Status returns the node's state. It waits neither for Raft nor for the machine.
func (g *Group) Status() Status {
	in := g.cur.Load()
	r, sums := in.raft, g.ledger.Totals()
	s := Status{
		Place:  Place{g.cfg.GroupID, g.cfg.Groups, g.cfg.Within},
		NodeID: g.cfg.NodeID, Addr: g.cfg.Advertise, Meta: *g.meta.Load(), WantsVote: !g.cfg.Nonvoter, DataID: in.id.Data(), ClusterID: in.id.Cluster(), Founding: in.id.Founding(),
		State: strings.ToLower(r.State().String()), Term: r.CurrentTerm(),
		LastIndex: r.LastIndex(), CommitIndex: r.CommitIndex(), AppliedIndex: g.applied(in),
		Wall:     g.clocks.Wall(),
		Progress: g.Progress(),
		Batches:  sums.Batches, Ticks: sums.Ticks, Entries: sums.Parts, PayloadBytes: sums.Bytes, LastBatch: sums.LastBatch,
	}
	_, s.SinceSnapshot = in.log.SinceSnapshot()
	s.WriteLast, s.WriteMean = in.log.Writes()
	_, s.Serving = g.Serving()
	if since, full := g.DiskFull(); full {
		s.DiskFull, s.DiskFullSince = true, since
	}
	s.LeaderID, s.LeaderAddr = g.Leader()
	s.Clock, s.Dropped = g.fsm.clock.Load(), g.fsm.fenced.Load()
	s.ClockUnset, s.ClockReport = g.keeper.unset.Load(), g.clockReport()
	if e := g.halted.Load(); e != nil {
		s.State, s.Halted = "halted", (*e).Error()
	}
	if metas, err := in.snaps.List(); err == nil && len(metas) > 0 {
		s.SnapshotIndex, s.SnapshotTime = metas[0].Index, snapshotTime(metas[0])
	}
	s.MembershipIndex, s.Removed = g.membershipIndex(), g.removed()
	s.Supports = g.cfg.supports()
	s.Members = g.members(&s)
	s.setFeatures(g.fsm.level.Load(), s.Supports)
	return s
}

// snapshotTime reads the time out of a snapshot's id, which ends in unix
// milliseconds.
func snapshotTime(m *raft.SnapshotMeta) time.Time {
	ms, err := strconv.ParseInt(m.ID[strings.LastIndexByte(m.ID, '-')+1:], 10, 64)
	if err != nil {
		return time.Time{}
	}
	return time.UnixMilli(ms)
}

// Members lists the nodes of the cluster.
func (g *Group) Members() []Member {
	s := g.Status()
	return s.Members
}

func (g *Group) members(s *Status) []Member {
	servers, _ := g.configuration()
	p := g.peers
	p.mu.Lock()
	defer p.mu.Unlock()
	out := make([]Member, 0, len(servers))
	for _, srv := range servers {
		m := Member{ID: member.NodeOf(srv.ID), Addr: string(srv.Address), DataID: member.DataOf(srv.ID), Voter: srv.Suffrage == raft.Voter, Leader: member.NodeOf(srv.ID) == s.LeaderID}
		if m.ID == s.NodeID {
			m.Self, m.Up, m.Seen, m.Applied, m.Meta, m.Supports = true, true, time.Unix(0, s.Wall), s.AppliedIndex, s.Meta, s.Supports
		} else if k := p.known[srv.ID]; k != nil {
			m.Up = k.up && time.Since(k.seen) < 3*pollInterval
			m.Seen, m.Applied, m.Meta, m.Supports = k.seen, k.status.AppliedIndex, k.status.Meta, k.status.Supports
			m.RTT, m.Skew = k.rtt, time.Duration(k.wall+boottime.Now()-g.clocks.Wall())
			m.Lag, m.LagTime = k.lag, k.lagTime
			m.Lost, m.HeldTerm, m.HeldIndex = k.lost, k.heldTerm, k.heldIndex
			m.Waits = !m.Voter && k.status.WantsVote
		}
		out = append(out, m)
	}
	return out
}
