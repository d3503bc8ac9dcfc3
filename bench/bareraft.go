package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"github.com/headgate-io/headgate/raftlog/disk"
)

// bareRaft is three nodes of hashicorp/raft in this process, with raftlog's options and
// store, and a state machine that does nothing. Nothing replicated can cost less. It also
// does without the switches between processes that Headgate's nodes pay for.
type bareRaft struct {
	stores []*disk.Store
	trans  []*raft.NetworkTransport
	rafts  []*raft.Raft
	leader *raft.Raft
}

func startBareRaft(dir string) (*bareRaft, error) {
	b := &bareRaft{}
	if err := b.start(dir); err != nil {
		b.stop()
		return nil, fmt.Errorf("bare raft: %w", err)
	}
	return b, nil
}

func (b *bareRaft) start(dir string) error {
	var members raft.Configuration
	logger := hclog.NewNullLogger()
	for i := range nodes {
		trans, err := raft.NewTCPTransportWithConfig("127.0.0.1:0", nil, &raft.NetworkTransportConfig{
			Logger: logger, MaxPool: 3, MaxRPCsInFlight: 2, Timeout: 10 * time.Second,
		})
		if err != nil {
			return err
		}
		b.trans = append(b.trans, trans)
		members.Servers = append(members.Servers, raft.Server{ID: raft.ServerID(fmt.Sprintf("n%d", i+1)), Address: trans.LocalAddr()})
	}
	for i, member := range members.Servers {
		path := filepath.Join(dir, string(member.ID))
		if err := os.MkdirAll(path, 0o755); err != nil {
			return err
		}
		store, err := disk.Open(path, false)
		if err != nil {
			return err
		}
		b.stores = append(b.stores, store)
		cache, err := raft.NewLogCache(512, store.Log)
		if err != nil {
			return err
		}
		conf := raft.DefaultConfig()
		conf.LocalID, conf.Logger, conf.NoLegacyTelemetry = member.ID, logger, true
		conf.HeartbeatTimeout, conf.ElectionTimeout, conf.LeaderLeaseTimeout = 500*time.Millisecond, 500*time.Millisecond, 250*time.Millisecond
		conf.CommitTimeout, conf.MaxAppendEntries, conf.BatchApplyCh = 50*time.Millisecond, 64, false
		r, err := raft.NewRaft(conf, ignore{}, cache, store.Stable, raft.NewDiscardSnapshotStore(), b.trans[i])
		if err != nil {
			return err
		}
		b.rafts = append(b.rafts, r)
	}
	if err := b.rafts[0].BootstrapCluster(members).Error(); err != nil {
		return err
	}
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		for _, r := range b.rafts {
			if r.State() == raft.Leader && r.Barrier(time.Second).Error() == nil {
				b.leader = r
				return nil
			}
		}
	}
	return errors.New("no leader")
}

func (b *bareRaft) stop() {
	for _, r := range b.rafts {
		_ = r.Shutdown().Error() // nothing depends on its end
	}
	for _, t := range b.trans {
		_ = t.Close()
	}
	for _, s := range b.stores {
		_ = s.Close()
	}
}

// measure applies entries of size bytes one after the other for d and returns
// the time that each took.
func (b *bareRaft) measure(d time.Duration, size int) ([]time.Duration, error) {
	var list []time.Duration
	entry := make([]byte, size)
	for end := time.Now().Add(d); time.Now().Before(end); {
		begin := time.Now()
		if err := b.leader.Apply(entry, 0).Error(); err != nil {
			return nil, fmt.Errorf("bare raft: apply: %w", err)
		}
		list = append(list, time.Since(begin))
	}
	return list, nil
}

// ignore is the state machine.
type ignore struct{}

var _ raft.FSM = ignore{}

func (ignore) Apply(*raft.Log) any                 { return nil }
func (ignore) Snapshot() (raft.FSMSnapshot, error) { return nil, errors.New("no snapshots") }
func (ignore) Restore(r io.ReadCloser) error       { return r.Close() }
