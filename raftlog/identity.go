package raftlog

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"github.com/headgate-io/headgate/raftlog/member"
	"github.com/headgate-io/headgate/raftlog/stable"
)

// Where the stable store keeps whose data it is part of.
var (
	dataKey    = []byte("headgate-data-id")
	nodeKey    = []byte("headgate-node-id")
	clusterKey = []byte("headgate-cluster-id")
	pledgeKey  = []byte("headgate-founding")
	beforeKey  = []byte("headgate-cluster-id-before-recovery")
	removedKey = []byte("headgate-removed")
)

// Where Raft keeps its term, and the term of its last vote.
var (
	currentTermKey = []byte("CurrentTerm")
	lastVoteKey    = []byte("LastVoteTerm")
)

// foreignInterval is the least time between two messages about nodes of other clusters.
const foreignInterval = 10 * time.Second

// identity tells whose data a directory holds. A member of the cluster is a node with its data: see serverID. Raft knows its
// peers by their addresses and compares logs by index and term alone: two logs that grew apart look the same to it where they
// have the same length. So the handshake of every connection of Raft tells the id of the cluster, which is random, and that of
// the data which it is meant for, and nodes of different clusters do not hear each other. The cluster's comes with the
// founding, or from the leader that takes the node in, and anew with a recovery; before it has one, a node hears nobody.
type identity struct {
	node   string
	data   string // random, made with the directory: a node that comes back with another one has lost its data
	stable raft.StableStore
	log    *slog.Logger

	cluster atomic.Pointer[string] // nil before there is one; written with mu held
	removed atomic.Bool            // the cluster has removed the node, which does not ask to be taken in again

	// mu guards what follows.
	mu     sync.Mutex
	pledge pledge
	said   time.Time // when the proposer of the founding was last heard
	told   time.Time
}

// holdsState reports whether a node has anything to lose: a log, a snapshot, a term it has voted in. A founding that was
// interrupted between its two writes, the first term and the first entry, is taken back: nothing else leaves that term alone.
func holdsState(log raft.LogStore, stable raft.StableStore, snaps raft.SnapshotStore) (bool, error) {
	holds, err := raft.HasExistingState(log, stable, snaps)
	if err != nil || !holds {
		return holds, err
	}
	last, err := log.LastIndex()
	if err != nil {
		return false, err
	}
	metas, err := snaps.List()
	if err != nil {
		return false, err
	}
	term, err := getUint64(stable, currentTermKey)
	if err != nil {
		return false, err
	}
	vote, err := getUint64(stable, lastVoteKey)
	if err != nil || last > 0 || len(metas) > 0 || term != 1 || vote > 0 {
		return true, err
	}
	return false, stable.SetUint64(currentTermKey, 0)
}

// openIdentity reads the identity of a node's data; holds reports whether there is any.
func openIdentity(stable raft.StableStore, node string, holds bool, log *slog.Logger) (*identity, error) {
	owner, err := getOrSet(stable, nodeKey, node)
	if err != nil {
		return nil, err
	}
	if owner != node {
		return nil, fmt.Errorf("%w: it belongs to node %s, not to %s", ErrOtherNode, owner, node)
	}
	i := &identity{node: node, stable: stable, log: log}
	if i.data, err = getOrSet(stable, dataKey, rand.Text()); err != nil {
		return nil, err
	}
	if holds { // else it is left of a start in a cluster that came to nothing
		cluster, err := getString(stable, clusterKey)
		if err != nil {
			return nil, err
		}
		i.cluster.Store(&cluster)
	}
	stored, err := loadPledge(stable, i.data)
	if err != nil {
		return nil, err
	}
	i.pledge = newPledge(stored, i.data, holds, rand.Text())
	removed, err := getString(stable, removedKey)
	if err != nil {
		return nil, err
	}
	i.removed.Store(removed != "")
	if before, err := getString(stable, beforeKey); err != nil || before == "" {
		return i, err
	}
	return i, setString(stable, beforeKey, "")
}

// clusterID returns the cluster's id, empty if there is none yet.
func (i *identity) clusterID() string {
	if c := i.cluster.Load(); c != nil {
		return *c
	}
	return ""
}

// server is the member that this node is, if the cluster has taken it in.
func (i *identity) server() raft.ServerID { return member.ServerID(i.node, i.data) }

// meet decides whether to hear a node of the given cluster, that has connected to reach the given data. What is meant for
// other data is not heard: whoever asks does not know yet that it is lost, and counts on what it held.
func (i *identity) meet(cluster, data string, from net.Addr) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	switch own := i.clusterID(); {
	case own == "":
		return ErrOtherCluster // it will hear of it, if it is to be
	case cluster != own:
		i.tell(slog.LevelError, "a node of another cluster connects; one of the two has to be wiped, or to be given other addresses", from)
		return ErrOtherCluster
	case data != i.data:
		i.tell(slog.LevelWarn, "a node looks for data that this one has lost; it is heard when a leader has taken this one in with what it has", from)
		return member.ErrOtherData
	}
	return nil
}

// noteRemoved remembers, across restarts, whether the cluster has removed the node.
func (i *identity) noteRemoved(removed bool) error {
	if i.removed.Load() == removed {
		return nil
	}
	value := ""
	if removed {
		value = "1"
	}
	if err := setString(i.stable, removedKey, value); err != nil {
		return err
	}
	i.removed.Store(removed)
	return nil
}

// tell logs why a node is not heard, once in a while. It must be called with mu held.
func (i *identity) tell(level slog.Level, why string, from net.Addr) {
	if now := time.Now(); now.Sub(i.told) >= foreignInterval {
		i.told = now
		i.log.Log(context.Background(), level, why, "remote", from)
	}
}

// same decides whether to execute what a node of the given cluster forwards.
func (i *identity) same(cluster string) error {
	if cluster == "" || cluster != i.clusterID() {
		return ErrOtherCluster
	}
	return nil
}

// ClusterID returns the id of the node's cluster, empty as long as it is part of none.
func (g *Group) ClusterID() string { return g.cur.Load().id.clusterID() }

// Admit returns ErrOtherCluster unless the node's cluster has the given id.
func (g *Group) Admit(cluster string) error { return g.cur.Load().id.same(cluster) }

// foreign reports whether a node with data of the given cluster belongs elsewhere.
func (i *identity) foreign(cluster string) bool {
	own := i.clusterID()
	return cluster != "" && own != "" && cluster != own
}

// recoverIdentity makes the data that of the cluster which the voters form, and of the node's member of it. All of them come
// to the same ids, also when the recovery is repeated before the node has run again.
func recoverIdentity(stable raft.StableStore, node string, voters []Peer) error {
	owner, err := getString(stable, nodeKey)
	if err != nil {
		return err
	}
	if owner != "" && owner != node {
		return fmt.Errorf("%w: it belongs to node %s, not to %s", ErrOtherNode, owner, node)
	}
	before, err := getString(stable, beforeKey)
	if err == nil && before == "" {
		before, err = getString(stable, clusterKey)
	}
	if err != nil {
		return err
	}
	h := sha256.New()
	io.WriteString(h, before)
	for _, v := range slices.SortedFunc(slices.Values(voters), func(a, b Peer) int { return cmp.Compare(a.ID, b.ID) }) {
		fmt.Fprintf(h, " %s=%s", v.ID, v.Addr)
	}
	if err := setString(stable, beforeKey, before); err != nil {
		return err
	}
	cluster := base32.StdEncoding.EncodeToString(h.Sum(nil)[:20])
	if err := setString(stable, dataKey, recoveredData(cluster, node)); err != nil {
		return err
	}
	return setString(stable, clusterKey, cluster)
}

// recoveredData is the id of a voter's data after a recovery: the other voters have to come to it by themselves.
func recoveredData(cluster, node string) string {
	h := sha256.Sum256([]byte(cluster + " " + node))
	return base32.StdEncoding.EncodeToString(h[:15])
}

// getString returns what the store holds under key, empty if it holds nothing.
func getString(s raft.StableStore, key []byte) (string, error) {
	v, err := s.Get(key)
	if err != nil && !errors.Is(err, stable.ErrNotFound) {
		return "", fmt.Errorf("read %s: %w", key, err)
	}
	return string(v), nil
}

// getUint64 returns the number that the store holds under key, 0 if it holds none.
func getUint64(s raft.StableStore, key []byte) (uint64, error) {
	v, err := s.GetUint64(key)
	if err != nil && !errors.Is(err, stable.ErrNotFound) {
		return 0, fmt.Errorf("read %s: %w", key, err)
	}
	return v, nil
}

func setString(s raft.StableStore, key []byte, value string) error {
	if err := s.Set(key, []byte(value)); err != nil {
		return fmt.Errorf("%w: %s: %w", ErrDisk, key, err)
	}
	return nil
}

// getOrSet returns what the store holds under key, and puts value there if it holds nothing.
func getOrSet(s raft.StableStore, key []byte, value string) (string, error) {
	v, err := getString(s, key)
	if err != nil || v != "" {
		return v, err
	}
	return value, setString(s, key, value)
}
