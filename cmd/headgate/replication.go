package main

import (
	"strconv"
	"time"

	"github.com/headgate-io/headgate/cmd/headgate/cluster"
	"github.com/headgate-io/headgate/server"
	hghttp "github.com/headgate-io/headgate/server/http"
)

// replicationMetrics reads the metrics of a node.
func replicationMetrics(n *cluster.Node, clients *server.Stats) *hghttp.Replication {
	s := n.Status()
	r := &hghttp.Replication{
		Role: n.Role().String(), Roles: cluster.Roles(),
		Leads: s.Serving, Leader: s.LeaderID != "", Term: s.Term,
		CommitIndex: s.CommitIndex, AppliedIndex: s.AppliedIndex, LastIndex: s.LastIndex,
		Unacked: s.Progress.Unacked.Seconds(), LossWindow: n.MaxUnacked().Seconds(),
		Batches: s.Batches, Entries: s.Entries, Payload: s.PayloadBytes, LastBatch: s.LastBatch, Dropped: s.Dropped,
		WriteLast: s.WriteLast.Seconds(), WriteMean: s.WriteMean.Seconds(),
		SnapshotAge: -1, SinceBytes: s.SinceSnapshot,
		Forwarded: clients.Forwarded, Degraded: clients.Degraded, Undecided: clients.Undecided, Uncertain: clients.Uncertain,
	}
	if !s.SnapshotTime.IsZero() {
		r.SnapshotAge = max(0, time.Since(s.SnapshotTime).Seconds())
	}
	for i := range s.Members {
		if m := &s.Members[i]; !m.Self {
			r.Peers = append(r.Peers, hghttp.Peer{
				Node: m.ID, Up: m.Up, Voter: m.Voter,
				LagEntries: m.Lag, Lag: m.LagTime.Seconds(), RTT: m.RTT.Seconds(), ClockSkew: m.Skew.Seconds(),
			})
		}
	}
	return r
}

// nodeInfo adds what the node knows to INFO.
type nodeInfo struct{ node *cluster.Node }

var _ server.InfoSource = (*nodeInfo)(nil)

// Sections implements server.InfoSource.
func (*nodeInfo) Sections() []string { return nil }

// Info implements server.InfoSource.
func (i *nodeInfo) Info(section string) []server.InfoField {
	if section != "replication" {
		return nil
	}
	s := i.node.Status()
	fields := []server.InfoField{
		{Name: "headgate_leader_id", Value: s.LeaderID},
		{Name: "headgate_commit_index", Value: uintText(s.CommitIndex)},
		{Name: "headgate_applied_index", Value: uintText(s.AppliedIndex)},
		{Name: "headgate_unacked_ms", Value: millis(s.Progress.Unacked)},
		{Name: "headgate_max_unacked_ms", Value: millis(i.node.MaxUnacked())},
		{Name: "headgate_batches", Value: uintText(s.Batches)},
		{Name: "headgate_payload_bytes", Value: uintText(s.PayloadBytes)},
		{Name: "headgate_last_batch_bytes", Value: strconv.FormatInt(s.LastBatch, 10)},
		{Name: "headgate_log_write_usec", Value: strconv.FormatInt(s.WriteLast.Microseconds(), 10)},
		{Name: "headgate_log_since_snapshot_bytes", Value: strconv.FormatInt(s.SinceSnapshot, 10)},
	}
	if !s.SnapshotTime.IsZero() {
		fields = append(fields, server.InfoField{Name: "headgate_snapshot_age_s", Value: strconv.FormatInt(int64(time.Since(s.SnapshotTime).Seconds()), 10)})
	}
	for _, m := range s.Members {
		if m.Self {
			continue
		}
		state := "down"
		if m.Up {
			state = "up"
		}
		fields = append(fields, server.InfoField{Name: "headgate_peer_" + m.ID, Value: "state=" + state +
			",voter=" + strconv.FormatBool(m.Voter) + ",lag_entries=" + uintText(m.Lag) + ",lag_ms=" + millis(m.LagTime) +
			",clock_skew_ms=" + millis(m.Skew)})
	}
	return fields
}

func uintText(n uint64) string { return strconv.FormatUint(n, 10) }

func millis(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }
