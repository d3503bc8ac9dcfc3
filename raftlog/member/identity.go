package member

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"github.com/headgate-io/headgate/raftlog/stable"
)

// Keys in the stable store that say whose data it is.
var (
	dataKey    = []byte("headgate-data-id")
	nodeKey    = []byte("headgate-node-id")
	clusterKey = []byte("headgate-cluster-id")
	pledgeKey  = []byte("headgate-founding")
	beforeKey  = []byte("headgate-cluster-id-before-recovery")
	removedKey = []byte("headgate-removed")
	groupsKey  = []byte("headgate-groups") // missing: 1
)

// foreignInterval is the least time between two messages about nodes of other clusters.
const foreignInterval = 10 * time.Second

// Identity says which node's data a directory holds. A member of the cluster is a node
// together with its data: see ServerID.
//
// Raft knows its peers by address, and compares logs only by index and term. So Raft
// takes the logs of two clusters for equal if they end at the same index and term. To
// prevent a mix-up, each connection's handshake contains the random id of the cluster,
// and the id of the data that the dialling node wants to reach. Nodes of different
// clusters refuse each other. A node gets the cluster's id with the founding, or from
// the leader that adds it. A recovery makes a new id. Without an id, a node accepts no
// peers.
type Identity struct {
	node   string
	data   string // see Data
	groups int    // of the cluster
	store  raft.StableStore
	log    *slog.Logger

	cluster atomic.Pointer[string] // nil before there is a cluster; written with mu held
	removed atomic.Bool            // see Removed

	// mu guards what follows.
	mu            sync.Mutex
	pledge        pledge
	proposerHeard time.Time // when the founding's proposer was last heard
	reported      time.Time // when a refusal was last logged
}

// Open reads the identity of a node's data. holds says whether the node has any data.
// groups is how many groups the cluster has. If the data is of a cluster with another
// number, or has agreed to found one, the error is ErrGroups.
func Open(s raft.StableStore, node string, groups int, holds bool, log *slog.Logger) (*Identity, error) {
	owner, err := stable.TextOr(s, nodeKey, node)
	if err != nil {
		return nil, err
	}
	if owner != node {
		return nil, fmt.Errorf("%w: it belongs to node %s, not to %s", ErrOtherNode, owner, node)
	}
	i := &Identity{node: node, groups: groups, store: s, log: log}
	if i.data, err = stable.TextOr(s, dataKey, rand.Text()); err != nil {
		return nil, err
	}
	if holds { // otherwise an unfinished start has left it
		cluster, err := stable.Text(s, clusterKey)
		if err != nil {
			return nil, err
		}
		i.cluster.Store(&cluster)
		if has, err := Groups(s); err != nil || max(has, 1) != groups {
			return nil, cmp.Or(err, fmt.Errorf("%w: %d, and this node was started with %d", ErrGroups, has, groups))
		}
	}
	stored, err := loadPledge(s, i.data)
	if err != nil {
		return nil, err
	}
	if f := stored.Founding; f != nil && !holds && max(f.Groups, 1) != groups {
		return nil, fmt.Errorf("%w: this node has agreed to found a cluster with %d, and was started with %d", ErrGroups, max(f.Groups, 1), groups)
	}
	i.pledge = newPledge(stored, i.data, holds, rand.Text())
	removed, err := stable.Text(s, removedKey)
	if err != nil {
		return nil, err
	}
	i.removed.Store(removed != "")
	if before, err := stable.Text(s, beforeKey); err != nil || before == "" {
		return i, err
	}
	return i, stable.SetText(s, beforeKey, "")
}

// HasIdentity reports whether a node has ever been opened with s.
func HasIdentity(s raft.StableStore) bool {
	_, err := s.Get(dataKey)
	return !errors.Is(err, stable.ErrNotFound)
}

// Groups returns how many groups the cluster has to which data belongs, or which its node
// has agreed to found. It returns 0 for other data. The error is ErrCorrupt if s has no such
// number.
func Groups(s raft.StableStore) (int, error) {
	cluster, err := stable.Text(s, clusterKey)
	if err != nil {
		return 0, err
	}
	if cluster == "" {
		data, err := stable.Text(s, dataKey)
		if err != nil {
			return 0, err
		}
		p, err := loadPledge(s, data)
		if err != nil || p.Founding == nil {
			return 0, err
		}
		return max(p.Founding.Groups, 1), nil
	}
	text, err := stable.Text(s, groupsKey)
	if err != nil || text == "" {
		return 1, err
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return 0, fmt.Errorf("%w: %s: %q", ErrCorrupt, groupsKey, text)
	}
	return n, nil
}

// setCluster stores the cluster to which the data belongs from now on. The number of
// groups is on disk before the cluster's id, which makes it count.
func (i *Identity) setCluster(id string) error {
	groups := ""
	if i.groups > 1 {
		groups = strconv.Itoa(i.groups)
	}
	if before, err := stable.Text(i.store, groupsKey); err != nil {
		return err
	} else if before != groups {
		if err := stable.SetText(i.store, groupsKey, groups); err != nil {
			return err
		}
	}
	return stable.SetText(i.store, clusterKey, id)
}

// Node returns the node's id.
func (i *Identity) Node() string { return i.node }

// Data returns the id of the node's data, which is random and made with the directory. A
// node that comes back with a new id has lost its data.
func (i *Identity) Data() string { return i.data }

// Removed reports whether the cluster has removed the node. The node then does not ask to
// be added again.
func (i *Identity) Removed() bool { return i.removed.Load() }

// Cluster returns the cluster's id, or "" before the node has one.
func (i *Identity) Cluster() string {
	if c := i.cluster.Load(); c != nil {
		return *c
	}
	return ""
}

// Server returns the member that this node is, if the cluster has added it.
func (i *Identity) Server() raft.ServerID { return ServerID(i.node, i.data) }

// Meet decides whether to accept a connection from a node of a cluster that wants to reach
// certain data. If the data is not this node's, the connection is refused: the other node
// does not know yet that the data is lost, and depends on it.
func (i *Identity) Meet(cluster, data string, from net.Addr) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	switch own := i.Cluster(); {
	case own == "":
		return ErrOtherCluster // a leader will tell this node its cluster
	case cluster == "":
		return ErrOtherCluster // the other node is founding its cluster just now
	case cluster != own:
		i.report(slog.LevelError, "a node of another cluster connects to this node; correct its addresses, or wipe the data of one of the two nodes", from)
		return ErrOtherCluster
	case data != i.data:
		i.report(slog.LevelWarn, "another node expects data that this node has lost; this node refuses the other node until a leader has added this node again", from)
		return ErrOtherData
	}
	return nil
}

// NoteRemoved stores whether the cluster has removed the node.
func (i *Identity) NoteRemoved(removed bool) error {
	if i.removed.Load() == removed {
		return nil
	}
	value := ""
	if removed {
		value = "1"
	}
	if err := stable.SetText(i.store, removedKey, value); err != nil {
		return err
	}
	i.removed.Store(removed)
	return nil
}

// report logs from time to time why a node is refused. The caller holds mu.
func (i *Identity) report(level slog.Level, why string, from net.Addr) {
	if now := time.Now(); now.Sub(i.reported) >= foreignInterval {
		i.reported = now
		i.log.Log(context.Background(), level, why, "remote", from)
	}
}

// Same returns ErrOtherCluster unless the node is part of the given cluster.
func (i *Identity) Same(cluster string) error {
	if cluster == "" || cluster != i.Cluster() {
		return ErrOtherCluster
	}
	return nil
}

// Foreign reports whether data of the given cluster belongs to another cluster.
func (i *Identity) Foreign(cluster string) bool {
	own := i.Cluster()
	return cluster != "" && own != "" && cluster != own
}
