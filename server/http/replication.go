package http

import "github.com/prometheus/client_golang/prometheus"

// Replication is one reading of a node of a cluster. Times are in seconds.
type Replication struct {
	Role   string // what the node may do: one of Roles
	Roles  []string
	Leads  bool // the node decides
	Leader bool // some node is known to lead
	Term   uint64

	CommitIndex, AppliedIndex, LastIndex uint64

	Unacked     float64 // age of the oldest effect that is not committed; of a leader
	LossWindow  float64 // the age at which the failure policy answers
	Batches     uint64  // cut by this node
	Entries     uint64  // log entries they took
	Payload     uint64  // bytes in them
	LastBatch   int64   // bytes of the last one
	Dropped     uint64  // entries that did not count
	WriteLast   float64 // the last write of the log, fsync included
	WriteMean   float64 // moving average of the same
	SnapshotAge float64 // negative without a snapshot
	SinceBytes  int64   // log since the last snapshot, in bytes

	Forwarded, Degraded, Undecided, Uncertain uint64 // commands: see their help texts

	Peers []Peer
}

// Peer is another node of the cluster as this one sees it.
type Peer struct {
	Node       string
	Up         bool
	Voter      bool
	LagEntries uint64  // behind this node's commit index
	Lag        float64 // the same in cluster time, in seconds
	RTT        float64 // of the last question, in seconds
	ClockSkew  float64 // its wall clock minus this node's, in seconds
}

// replicationMetrics are the metrics of a Replication.
type replicationMetrics struct {
	role    *prometheus.Desc
	scalars []replicationScalar
	peers   []peerScalar
}

type replicationScalar struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(*Replication) float64
}

type peerScalar struct {
	desc  *prometheus.Desc
	value func(*Peer) float64
}

func newReplicationMetrics() *replicationMetrics {
	m := &replicationMetrics{
		role: prometheus.NewDesc("headgate_replication_role", "1 for what this node may do now, 0 for the other roles.", []string{"role"}, nil),
	}
	const counter, gauge = prometheus.CounterValue, prometheus.GaugeValue
	for _, s := range []struct {
		name, help string
		kind       prometheus.ValueType
		value      func(*Replication) float64
	}{
		{"leader", "1 if this node decides.", gauge, func(r *Replication) float64 { return bit(r.Leads) }},
		{"leader_known", "1 if some node is known to lead.", gauge, func(r *Replication) float64 { return bit(r.Leader) }},
		{"term", "Raft's term.", gauge, func(r *Replication) float64 { return float64(r.Term) }},
		{"commit_index", "Last log entry known to be committed.", gauge, func(r *Replication) float64 { return float64(r.CommitIndex) }},
		{"applied_index", "Last log entry applied.", gauge, func(r *Replication) float64 { return float64(r.AppliedIndex) }},
		{"last_index", "Last log entry.", gauge, func(r *Replication) float64 { return float64(r.LastIndex) }},
		{"unacked_seconds", "Age of the oldest effect that is not committed, on the leader.", gauge, func(r *Replication) float64 { return r.Unacked }},
		{"max_unacked_seconds", "Age of an effect at which the failure policy answers: the loss window of async.", gauge, func(r *Replication) float64 { return r.LossWindow }},
		{"batches_total", "Batches of effects cut by this node.", counter, func(r *Replication) float64 { return float64(r.Batches) }},
		{"entries_total", "Log entries of those batches.", counter, func(r *Replication) float64 { return float64(r.Entries) }},
		{"payload_bytes_total", "Bytes of those batches.", counter, func(r *Replication) float64 { return float64(r.Payload) }},
		{"last_batch_bytes", "Bytes of the last batch.", gauge, func(r *Replication) float64 { return float64(r.LastBatch) }},
		{"dropped_entries_total", "Log entries that counted on no node: left over from a lost leadership.", counter, func(r *Replication) float64 { return float64(r.Dropped) }},
		{"log_write_seconds", "Time of the last write of the log, fsync included.", gauge, func(r *Replication) float64 { return r.WriteLast }},
		{"log_write_mean_seconds", "Moving average of the same.", gauge, func(r *Replication) float64 { return r.WriteMean }},
		{"snapshot_age_seconds", "Age of the last snapshot; -1 without one.", gauge, func(r *Replication) float64 { return max(r.SnapshotAge, -1) }},
		{"log_since_snapshot_bytes", "Log written since the last snapshot.", gauge, func(r *Replication) float64 { return float64(r.SinceBytes) }},
		{"forwarded_total", "Commands answered by the leader for clients of this node.", counter, func(r *Replication) float64 { return float64(r.Forwarded) }},
		{"degraded_total", "Calls of limits that the failure policy answered, for want of a leader.", counter, func(r *Replication) float64 { return float64(r.Degraded) }},
		{"undecided_total", "Commands refused for want of a leader.", counter, func(r *Replication) float64 { return float64(r.Undecided) }},
		{"uncertain_total", "Commands answered UNCERTAIN: they may have been executed.", counter, func(r *Replication) float64 { return float64(r.Uncertain) }},
	} {
		m.scalars = append(m.scalars, replicationScalar{prometheus.NewDesc("headgate_replication_"+s.name, s.help, nil, nil), s.kind, s.value})
	}
	for _, s := range []struct {
		name, help string
		value      func(*Peer) float64
	}{
		{"up", "1 if the node answered within the last seconds.", func(p *Peer) float64 { return bit(p.Up) }},
		{"voter", "1 if the node has a vote.", func(p *Peer) float64 { return bit(p.Voter) }},
		{"lag_entries", "Log entries that the node is behind this node's commit index.", func(p *Peer) float64 { return float64(p.LagEntries) }},
		{"lag_seconds", "The same in time.", func(p *Peer) float64 { return p.Lag }},
		{"rtt_seconds", "Round trip of the last question to the node.", func(p *Peer) float64 { return p.RTT }},
		{"clock_skew_seconds", "The node's wall clock minus this node's.", func(p *Peer) float64 { return p.ClockSkew }},
	} {
		m.peers = append(m.peers, peerScalar{prometheus.NewDesc("headgate_peer_"+s.name, s.help, []string{"node"}, nil), s.value})
	}
	return m
}

func (m *replicationMetrics) describe(out chan<- *prometheus.Desc) {
	out <- m.role
	for _, s := range m.scalars {
		out <- s.desc
	}
	for _, s := range m.peers {
		out <- s.desc
	}
}

func (m *replicationMetrics) collect(out chan<- prometheus.Metric, r *Replication) {
	for _, role := range r.Roles {
		out <- prometheus.MustNewConstMetric(m.role, prometheus.GaugeValue, bit(role == r.Role), role)
	}
	for _, s := range m.scalars {
		out <- prometheus.MustNewConstMetric(s.desc, s.kind, s.value(r))
	}
	for i := range r.Peers {
		for _, s := range m.peers {
			out <- prometheus.MustNewConstMetric(s.desc, prometheus.GaugeValue, s.value(&r.Peers[i]), r.Peers[i].Node)
		}
	}
}

func bit(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
