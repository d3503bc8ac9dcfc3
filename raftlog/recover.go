package raftlog

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"github.com/hashicorp/raft"

	"github.com/headgate-io/headgate/raftlog/disk"
	"github.com/headgate-io/headgate/raftlog/member"
)

// Recover rewrites the membership of a node whose cluster has lost its majority for
// good. All entries in the node's log count as committed, because no remaining node
// knows which entries were. Afterwards the node has a snapshot of that state, an empty
// log, and the given voters. The group must not be open. The machine cannot be used
// again; open the group with a new machine.
//
// To continue with one survivor, recover it as the only voter. Then wipe the other nodes
// and let them join. The new cluster ignores nodes of the old cluster that were not
// recovered.
func Recover(cfg Config, m Machine, voters []member.Voter) (err error) {
	cfg, err = cfg.withDefaults()
	if err != nil {
		return fmt.Errorf("raftlog: %w", err)
	}
	for i, p := range voters {
		if slices.ContainsFunc(voters[:i], func(q member.Voter) bool { return q.ID == p.ID || q.Addr == p.Addr }) {
			return fmt.Errorf("recover: voter %s at %s: another voter has the same id or address", p.ID, p.Addr)
		}
	}
	if !slices.ContainsFunc(voters, func(p member.Voter) bool { return p.ID == cfg.NodeID }) {
		return fmt.Errorf("recover: %w: this node, %s, is not among the voters", ErrUnknownMember, cfg.NodeID)
	}
	if _, err := os.Stat(cfg.dir()); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("recover: no node has run with data directory %s", cfg.DataDir)
	}
	store, err := disk.Open(cfg.dir(), false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	logs := disk.NewLog(store.Log, func(error) {}, cfg.Logger)
	snaps, err := disk.OpenSnapshots(cfg.dir(), logs, cfg.Logger, newRaftLogger(cfg.Logger), func() {})
	if err != nil {
		return err
	}
	if err := disk.Reconcile(snaps, logs, store.Fresh, cfg.readable, cfg.Logger); err != nil {
		return err
	}
	f := newFSM(&cfg, m, func() int64 { return 0 })
	f.fatal, f.observe, f.retune = func(error) {}, func() {}, func() {}
	if err := f.openLevel(store.Stable); err != nil {
		return err
	}
	_, trans := raft.NewInmemTransport(raft.ServerAddress(cfg.Advertise)) // only encodes addresses
	// Store the id first: with the old id and the new voters, the node could mix with its
	// old cluster.
	conf, err := member.Recover(store.Stable, cfg.NodeID, voters)
	if err != nil {
		return err
	}
	self, _ := findServer(conf.Servers, cfg.NodeID)
	if err := raft.RecoverCluster(cfg.raftConfig(self.ID), syncedFSM{f, logs}, logs, store.Stable, snaps, trans, conf); err != nil {
		return fmt.Errorf("recover: %w", err)
	}
	return nil
}
