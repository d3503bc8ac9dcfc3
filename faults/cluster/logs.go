package cluster

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/hashicorp/raft"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/raftlog"
	"github.com/headgate-io/headgate/raftlog/wal"
)

// Stop kills all nodes.
func (c *Cluster) Stop() {
	for _, n := range c.Nodes {
		if n.Running() {
			n.Kill()
		}
	}
}

// Payloads calls fn with what the data of a stopped node says about keys: the payloads of effects of each group, in
// finished snapshots and in the log. An error of fn, or of what cannot be read, does not end it: all of them are returned.
func Payloads(data string, fn func(group int, payload []byte) error) error {
	dirs, err := filepath.Glob(filepath.Join(data, "group-*"))
	for _, dir := range dirs {
		group, e := strconv.Atoi(strings.TrimPrefix(filepath.Base(dir), "group-"))
		if e != nil {
			continue // a copy that somebody has put aside
		}
		use := func(payload []byte) error { return fn(group, payload) }
		snapshots, e := filepath.Glob(filepath.Join(dir, "snapshots", "*", "state.bin"))
		err = errors.Join(err, e)
		for _, path := range snapshots {
			if !strings.HasSuffix(filepath.Dir(path), ".tmp") {
				err = errors.Join(err, snapshotPayloads(path, group, use))
			}
		}
		err = errors.Join(err, logPayloads(dir, group, use))
	}
	return err
}

func snapshotPayloads(path string, group int, use func(payload []byte) error) (err error) {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	parts, state, err := raftlog.ReadSnapshot(f, uint32(group))
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	for _, p := range parts {
		if len(p) > 0 {
			err = errors.Join(err, use(p))
		}
	}
	if e := engine.ReadSnapshot(state, use); e != nil {
		err = errors.Join(err, fmt.Errorf("%s: %w", path, e))
	}
	return err
}

func logPayloads(dir string, group int, use func(payload []byte) error) error {
	var unread error // the first
	err := wal.Entries(dir, func(l *raft.Log) error {
		if l.Type != raft.LogCommand {
			return nil
		}
		g, payload, err := raftlog.ReadEntry(l.Data)
		if err == nil && int(g) != group {
			err = fmt.Errorf("an entry of group %d", g)
		}
		if err == nil && len(payload) > 0 {
			err = use(payload)
		}
		if err != nil && unread == nil {
			unread = fmt.Errorf("%s: entry %d: %w", dir, l.Index, err)
		}
		return nil
	})
	return errors.Join(err, unread)
}
