package engine_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/engine/effects"
)

// A full log travels in less than half of the bytes of its words.
func TestALogIsSmall(t *testing.T) {
	n := newNode(t, engine.Config{Shards: 1})
	n.r.Lead(start)
	const entries = 1000
	now := start
	for range entries {
		now += minute / entries
		decide(t, n.s, now, "k", perMinute(algo.Log, entries), 1, algo.Options{})
	}
	parts, ok := n.r.Cut(1 << 20)
	require.True(t, ok)
	require.Len(t, parts, 1)
	require.Less(t, len(parts[0]), 5*entries+300)
	follower := newNode(t, engine.Config{})
	require.NoError(t, follower.r.Apply(parts, now))
	require.Equal(t, n.table(now), follower.table(now))
}

// Payloads and snapshots have the permitted version.
func TestWritersObeyTheFormatsPermitted(t *testing.T) {
	n := newNode(t, engine.Config{Shards: 1})
	for _, version := range []byte{effects.Newest, effects.Newest + 1} {
		n.r.Permit(effects.Formats{Effects: version})
		n.r.Lead(start)
		decide(t, n.s, start, "k", perMinute(algo.Token, 5), 1, algo.Options{Force: true})
		chargeOnce(t, n.s, "n0", int64(version), nil)
		parts := n.cut()
		require.Equal(t, version, parts[0][0])
		n.l.Commit()
		n.depose()
		var snap bytes.Buffer
		require.NoError(t, n.r.Snapshot().Persist(&snap))
		for i := 0; snap.Bytes()[i] != 0; i += 1 + int(snap.Bytes()[i]) {
			require.Equal(t, version, snap.Bytes()[i+1])
		}
	}
	require.NoError(t, effects.FirstFormats.Check())
	require.Error(t, effects.Formats{Effects: effects.Newest + 1}.Check())
	require.Error(t, effects.Formats{}.Check())
}
