package main

import (
	"strconv"
	"strings"
	"time"

	"github.com/headgate-io/headgate/cluster"
	"github.com/headgate-io/headgate/raftlog"
	"github.com/headgate-io/headgate/server"
	"github.com/headgate-io/headgate/server/web"
)

// replicationMetrics returns the metrics of a node's replication.
func replicationMetrics(n *cluster.Node, front *server.Server, clients *server.Stats) []web.Metric {
	s := n.Group(0).Status()
	metrics := []web.Metric{
		web.Gauge("headgate_replication_max_unacked_seconds", "Age of an effect at which the failure policy answers: the loss window of async.", n.MaxUnacked().Seconds()),
		web.Gauge("headgate_replication_feature_level", "The feature level of the cluster: the formats that its nodes may write.", uint64(s.Level)),
		web.Gauge("headgate_replication_feature_level_supported", "The highest feature level that this node can read.", uint64(s.Supports)),
		web.Gauge("headgate_replication_feature_level_held_back", "Members that cannot read the highest feature level that some member can read, and so keep the cluster below it.", len(s.HeldBack)),
		web.Gauge("headgate_data_dir_full", "1 if the disk is full on this node, the only member of its cluster: the node keeps its decisions in memory only.", bit(s.DiskFull)),
		web.Counter("headgate_replication_forwarded_total", "Commands answered by the leader for clients of this node.", clients.Forwarded),
		web.Counter("headgate_replication_degraded_total", "Calls of limits, and commands about counters, that the failure policy answered because there was no leader.", clients.Degraded),
		web.Counter("headgate_backstop_denied_total", "Calls of limits that on-failure open denied: they were beyond backstop times a limit.", clients.BackstopDenied),
		web.Counter("headgate_backstop_full_total", "Keys that on-failure open forgot, and calls that it admitted uncounted, because it had no room.", clients.BackstopFull),
		web.Counter("headgate_replication_undecided_total", "Commands refused because there was no leader.", clients.Undecided),
		web.Counter("headgate_replication_uncertain_total", "Commands answered UNCERTAIN: they may have been executed.", clients.Uncertain),
		web.Counter("headgate_publish_dropped_total", "Messages of PUBLISH and SPUBLISH that this node did not send to another node, because that node did not answer or keep up.", clients.PublishDropped),
		web.Counter("headgate_two_group_checks_total", "Checks that this node began, and for which it asked the group of the policy's ceilings.", clients.TwoGroups.Asked),
		web.Counter("headgate_two_group_cancelled_total", "Those whose charge at home was given back, because the second group did not let them pass.", clients.TwoGroups.Cancelled),
		web.Counter("headgate_two_group_kept_total", "Those whose charge at home stays although they did not pass, because this node stopped leading meanwhile or a repeat may use the charge.", clients.TwoGroups.Kept),
		web.Counter("headgate_two_group_unknown_total", "Those whose charge at home stays, because the second group may or may not have charged them.", clients.TwoGroups.Unknown),
	}
	if free, size, err := n.Disk(); err == nil {
		metrics = append(metrics,
			web.Gauge("headgate_data_dir_free_bytes", "Free space of the file system that holds data-dir.", free),
			web.Gauge("headgate_data_dir_size_bytes", "Size of that file system.", size))
	}
	differing := make(map[string]bool)
	for _, d := range cluster.Differences(&s) {
		differing[d.Name] = true
	}
	for _, parameter := range n.Settings() {
		metrics = append(metrics,
			web.Gauge("headgate_replication_settings_differ", "1 if nodes have different values of the parameter.", bit(differing[parameter.Name])).With("parameter", parameter.Name))
	}
	for i := range s.Members {
		if !s.Members[i].Self {
			metrics = append(metrics, peerMetrics(&s.Members[i])...)
		}
	}
	for i := range n.Groups() {
		metrics = append(metrics, groupMetrics(n.Group(i))...)
		metrics = append(metrics,
			web.Counter("headgate_group_decisions_total", "Decisions of limits that this node has made for the group, without those of scripts.", clients.Decided[i]).With("group", strconv.Itoa(i)),
			web.Counter("headgate_group_forwarded_total", "Commands and transactions that leaders of the group have answered for this node.", front.Partitions()[i].Forwarded()).With("group", strconv.Itoa(i)),
			web.Counter("headgate_redirects_total", "Commands answered MOVED at cluster-listen, because another node leads the group of their key.", clients.Redirects[i]).With("group", strconv.Itoa(i)))
	}
	return metrics
}

// groupMetrics returns the metrics of a node's part in one Raft group.
func groupMetrics(g *cluster.Group) []web.Metric {
	s := g.Status()
	snapshotAge := -1.0
	if !s.SnapshotTime.IsZero() {
		snapshotAge = max(0, time.Since(s.SnapshotTime).Seconds())
	}
	metrics := []web.Metric{
		web.Gauge("headgate_replication_leader", "1 if this node decides for the group.", bit(s.Serving)),
		web.Gauge("headgate_replication_leader_known", "1 if some node is known to lead the group.", bit(s.LeaderID != "")),
		web.Gauge("headgate_replication_term", "Raft's term.", s.Term),
		web.Gauge("headgate_replication_commit_index", "Last log entry known to be committed.", s.CommitIndex),
		web.Gauge("headgate_replication_applied_index", "Last log entry applied.", s.AppliedIndex),
		web.Gauge("headgate_replication_last_index", "Last log entry.", s.LastIndex),
		web.Gauge("headgate_replication_unacked_seconds", "Age of the oldest effect that is not committed, on the leader.", s.Progress.Unacked.Seconds()),
		web.Counter("headgate_replication_batches_total", "Batches of effects cut by this node.", s.Batches),
		web.Counter("headgate_replication_entries_total", "Log entries of those batches.", s.Entries),
		web.Counter("headgate_replication_payload_bytes_total", "Bytes of those batches.", s.PayloadBytes),
		web.Gauge("headgate_replication_last_batch_bytes", "Bytes of the last batch.", s.LastBatch),
		web.Counter("headgate_replication_dropped_entries_total", "Log entries that no node counted, because their leader had lost leadership.", s.Dropped),
		web.Gauge("headgate_replication_log_write_seconds", "Time of the last write of the log, fsync included.", s.WriteLast.Seconds()),
		web.Gauge("headgate_replication_log_write_mean_seconds", "Moving average of the same.", s.WriteMean.Seconds()),
		web.Gauge("headgate_replication_snapshot_age_seconds", "Age of the last snapshot; -1 without one.", snapshotAge),
		web.Gauge("headgate_replication_log_since_snapshot_bytes", "Log written since the last snapshot.", s.SinceSnapshot),
		web.Gauge("headgate_replication_clock_unset", "1 if no node knew how long the cluster was down, so the cluster clock continued from its last value: run headgate cluster set-clock.", bit(s.ClockUnset)),
	}
	now := g.Role().String()
	for _, role := range cluster.Roles() {
		metrics = append(metrics,
			web.Gauge("headgate_replication_role", "1 for what this node may do now in the group, 0 for the other roles.", bit(role == now)).With("role", role))
	}
	for i := range s.Members {
		if m := &s.Members[i]; !m.Self {
			metrics = append(metrics,
				web.Gauge("headgate_peer_lag_entries", "Log entries that the node is behind this node's commit index.", m.Lag).With("node", m.ID),
				web.Gauge("headgate_peer_lag_seconds", "The same in time.", m.LagTime.Seconds()).With("node", m.ID))
		}
	}
	for i := range metrics {
		metrics[i] = metrics[i].With("group", strconv.Itoa(g.ID()))
	}
	return metrics
}

// peerMetrics returns what this node knows of another node, as metrics.
func peerMetrics(m *raftlog.Member) []web.Metric {
	metrics := []web.Metric{
		web.Gauge("headgate_peer_up", "1 if the node answered within the last seconds.", bit(m.Up)),
		web.Gauge("headgate_peer_voter", "1 if the node has a vote.", bit(m.Voter)),
		web.Gauge("headgate_peer_rtt_seconds", "Round trip of the last question to the node.", m.RTT.Seconds()),
		web.Gauge("headgate_peer_feature_level_supported", "The highest feature level that the node can read; 0 before it has answered.", uint64(m.Supports)),
		web.Gauge("headgate_peer_clock_skew_seconds", "The node's wall clock minus this node's.", m.Skew.Seconds()),
	}
	for i := range metrics {
		metrics[i] = metrics[i].With("node", m.ID)
	}
	return metrics
}

func bit(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// nodeInfo adds the fields of the cluster's node to INFO.
type nodeInfo struct{ node *cluster.Node }

var _ server.InfoSource = (*nodeInfo)(nil)

// Info implements server.InfoSource.
func (i *nodeInfo) Info(section string) []server.InfoField {
	if section != "replication" {
		return nil
	}
	s := i.node.Group(0).Status()
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
		{Name: "headgate_feature_level", Value: uintText(uint64(s.Level))},
		{Name: "headgate_feature_levels_supported", Value: levels(s.Supports)},
		{Name: "headgate_log_since_snapshot_bytes", Value: strconv.FormatInt(s.SinceSnapshot, 10)},
		{Name: "headgate_clock_unset", Value: strconv.Itoa(int(bit(s.ClockUnset)))},
		{Name: "headgate_disk_full", Value: strconv.Itoa(int(bit(s.DiskFull)))},
	}
	var differing []string
	for _, d := range cluster.Differences(&s) {
		differing = append(differing, d.Name)
	}
	if len(differing) > 0 {
		fields = append(fields, server.InfoField{Name: "headgate_settings_differ", Value: strings.Join(differing, ",")})
	}
	if len(s.HeldBack) > 0 {
		fields = append(fields, server.InfoField{Name: "headgate_feature_level_held_back", Value: heldBack(&s)})
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
			",clock_skew_ms=" + millis(m.Skew) + ",feature_levels=" + levels(m.Supports)})
	}
	return fields
}

func uintText(n uint64) string { return strconv.FormatUint(n, 10) }

func millis(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }
