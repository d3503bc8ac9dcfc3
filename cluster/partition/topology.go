package partition

// Topology is a view of a cluster.
type Topology struct {
	Self  string // node id
	Term  uint64
	Nodes []TopologyNode
}

// TopologyNode is one node of a cluster. Host and Port are the address for its clients.
type TopologyNode struct {
	ID     string
	Host   string
	Port   int
	Leader bool
	Voter  bool
	Alive  bool
	// LagEntries and LagMillis say how far the node's log is behind the leader's log.
	LagEntries uint64
	LagMillis  int64
}

// Addressed reports whether the node's address for clients is known. It is unknown in the
// first second after this node has met the other.
func (n *TopologyNode) Addressed() bool { return n.Port != 0 }
