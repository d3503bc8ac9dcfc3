package partition

// Topology is a view of a cluster.
type Topology struct {
	Self  string // node id
	Term  uint64
	Nodes []TopologyNode
}

// TopologyNode is one node of a cluster. Host and Port are where its clients
// connect.
type TopologyNode struct {
	ID     string
	Host   string
	Port   int
	Leader bool
	Voter  bool
	Alive  bool
	// LagEntries and LagMillis are how far its log is behind the leader's.
	LagEntries uint64
	LagMillis  int64
}

// Addressed reports whether it is known where clients reach n: not so in the
// first second of a node that has just been met.
func (n *TopologyNode) Addressed() bool { return n.Port != 0 }
