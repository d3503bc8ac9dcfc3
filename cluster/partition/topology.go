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
	// LagEntries and LagMillis are how far the node's log is behind the leader's.
	LagEntries uint64
	LagMillis  int64
}

// Addressed reports whether the address for clients of n is known. It is unknown in the
// first second after a node was met.
func (n *TopologyNode) Addressed() bool { return n.Port != 0 }
