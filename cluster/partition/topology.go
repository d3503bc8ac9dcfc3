package partition

// Topology is a view of a cluster.
type Topology struct {
	Self  string // node id
	Term  uint64
	Nodes []TopologyNode
}

// Address is a host and a port. The zero value is an unknown address.
type Address struct {
	Host string
	Port int
}

// TopologyNode is one node of a cluster.
type TopologyNode struct {
	ID      string
	Address         // address for the node's clients
	Cluster Address // address for clients of Redis Cluster; zero if the node has no separate port for them
	Leader  bool
	Voter   bool
	Waits   bool // no voter yet: it gets a vote when it has caught up
	Alive   bool
	// LagEntries and LagMillis say how far the node's log is behind the leader's log.
	LagEntries uint64
	LagMillis  int64
}

// Addressed reports whether the node's address for clients is known. It is unknown in the
// first second after this node has met the other.
func (n *TopologyNode) Addressed() bool { return n.Port != 0 }

// ForCluster returns the address for clients of Redis Cluster: Cluster, or else Address,
// where the node forwards their commands.
func (n *TopologyNode) ForCluster() Address {
	if n.Cluster.Port != 0 {
		return n.Cluster
	}
	return n.Address
}
