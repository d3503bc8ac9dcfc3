package cluster

import (
	"encoding/binary"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/raftlog"
	"github.com/headgate-io/headgate/raftlog/wal"
)

// writeEntry is a log entry of a group: version, group, node, term, batch, part, parts, level, clock, payload.
func writeEntry(group byte, payload string) []byte {
	b := append([]byte{2, group, 2}, "n1"...)
	b = append(b, 1, 1, 0, 1, 0)
	return append(binary.BigEndian.AppendUint64(b, 7), payload...)
}

// writeSnapshot is a snapshot of a group with a part of a batch, and the chunks of the state.
func writeSnapshot(group byte, part string, chunks ...string) []byte {
	body := binary.BigEndian.AppendUint64([]byte{group, 1, 1}, 7)
	body = append(body, 1, 1, byte(len(part)))
	body = append(body, part...)
	b := append([]byte("HGS"), 2, byte(len(body)))
	b = append(b, body...)
	for _, c := range append(chunks, "") {
		b = append(append(b, byte(len(c))), c...)
	}
	return b
}

// TestPayloadsOfAllGroups: of the log and of finished snapshots. Payloads reports what it cannot read, and goes on.
func TestPayloadsOfAllGroups(t *testing.T) {
	data := t.TempDir()
	for group := range byte(3) {
		dir := filepath.Join(data, fmt.Sprint("group-", group))
		for name, text := range map[string]string{"5-100": "old", "5-200.tmp": "unfinished"} {
			snapshot := filepath.Join(dir, "snapshots", name)
			require.NoError(t, os.MkdirAll(snapshot, 0o755))
			require.NoError(t, os.WriteFile(filepath.Join(snapshot, "state.bin"), writeSnapshot(group, "part", text, "more"), 0o644))
		}
		log, err := wal.Open(wal.Options{Dir: dir, Stable: raft.NewInmemStore(), NoSync: true})
		require.NoError(t, err)
		require.NoError(t, log.StoreLogs([]*raft.Log{
			{Index: 1, Type: raft.LogConfiguration, Data: []byte("members")},
			{Index: 2, Type: raft.LogCommand, Data: writeEntry(group, "first")},
			{Index: 3, Type: raft.LogCommand, Data: writeEntry(group, "")}, // a tick
			{Index: 4, Type: raft.LogCommand, Data: writeEntry(group, "second")},
		}))
		require.NoError(t, log.Close())
	}
	got := make(map[int][]string)
	read := func() error {
		clear(got)
		return Payloads(data, func(group int, payload []byte) error {
			got[group] = append(got[group], string(payload))
			return nil
		})
	}
	require.NoError(t, read())
	for group := range 3 {
		require.Equal(t, []string{"part", "old", "more", "first", "second"}, got[group], "group %d", group)
	}

	// The log of group 1 in the place of group 2.
	require.NoError(t, os.Rename(filepath.Join(data, "group-2"), filepath.Join(t.TempDir(), "away")))
	require.NoError(t, os.Rename(filepath.Join(data, "group-1"), filepath.Join(data, "group-2")))
	err := read()
	require.ErrorIs(t, err, raftlog.ErrCorrupt)
	require.ErrorContains(t, err, "an entry of group 1")
	require.Equal(t, []int{0}, slices.Collect(maps.Keys(got)))
}
