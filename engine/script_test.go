package engine_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/engine"
)

// scriptNode returns a leader whose cluster can read scripts.
func scriptNode(t *testing.T) *node {
	n := newNode(t, engine.Config{})
	n.r.Lead(start)
	return n
}

// The texts of scripts are on every node, and in snapshots.
func TestScriptsReplicate(t *testing.T) {
	n, follower, late := scriptNode(t), newNode(t, engine.Config{}), newNode(t, engine.Config{})
	sc := engine.Script{Body: "return 1", Loaded: true}
	require.NoError(t, n.s.PutScript("sha", sc))
	require.NoError(t, n.s.PutScript("gone", engine.Script{Body: "x"}))
	require.NoError(t, follower.r.Apply(n.cut(), start))
	got, ok := follower.e.Script("sha")
	require.True(t, ok)
	require.Equal(t, sc, got)
	gone := follower.e.ScriptsGone()
	require.NoError(t, n.s.DropScripts("gone", "unknown"))
	require.NoError(t, follower.r.Apply(n.cut(), start))
	_, ok = follower.e.Script("gone")
	require.False(t, ok)
	require.NotEqual(t, gone, follower.e.ScriptsGone(), "who has compiled it looks again")
	require.Equal(t, n.e.Digest(start), follower.e.Digest(start))

	n.l.Commit()
	n.l.Commit()
	var snap bytes.Buffer
	require.NoError(t, n.r.Snapshot().Persist(&snap))
	require.NoError(t, late.r.Restore(&snap, start))
	got, ok = late.e.Script("sha")
	require.True(t, ok)
	require.Equal(t, sc, got)
	require.NoError(t, n.s.DropScripts())
	require.NoError(t, follower.r.Apply(n.cut(), start))
	_, ok = follower.e.Script("sha")
	require.False(t, ok)
}

// A deposed leader has neither gained nor lost an uncommitted script.
func TestDeposeTakesBackScripts(t *testing.T) {
	n := scriptNode(t)
	require.NoError(t, n.s.PutScript("kept", engine.Script{Body: "x"}))
	n.cut()
	n.l.Commit()
	require.NoError(t, n.s.PutScript("new", engine.Script{Body: "y"}))
	require.NoError(t, n.s.DropScripts("kept"))
	gone := n.e.ScriptsGone()
	n.depose()
	_, ok := n.e.Script("kept")
	require.True(t, ok)
	_, ok = n.e.Script("new")
	require.False(t, ok)
	require.NotEqual(t, gone, n.e.ScriptsGone())
	require.ErrorIs(t, n.s.PutScript("late", engine.Script{Body: "x"}), engine.ErrSealed)
	require.ErrorIs(t, n.s.DropScripts("kept"), engine.ErrSealed)
}

// Scripts have a bound in number and in bytes.
func TestScriptRecordsAreBounded(t *testing.T) {
	n := scriptNode(t)
	for i := range engine.MaxScripts {
		require.NoError(t, n.s.PutScript(fmt.Sprint(i), engine.Script{Body: "x"}))
	}
	require.ErrorIs(t, n.s.PutScript("more", engine.Script{Body: "x"}), engine.ErrScriptsFull)
	require.NoError(t, n.s.PutScript("0", engine.Script{Body: "y"}), "one that is there")
	require.NoError(t, n.s.DropScripts())
	large := engine.Script{Body: strings.Repeat("x", engine.MaxScriptLen)}
	for i := range engine.MaxScriptBytes / (engine.MaxScriptLen + 1) {
		require.NoError(t, n.s.PutScript(fmt.Sprint(i), large))
	}
	require.ErrorIs(t, n.s.PutScript("more", large), engine.ErrScriptsFull)
	count := 0
	n.e.Scripts(func(string, bool) bool { count++; return true })
	require.Equal(t, engine.MaxScriptBytes/(engine.MaxScriptLen+1), count)
}

// Without replication, no script is kept.
func TestScriptsAreKeptForOthers(t *testing.T) {
	alone := engine.New(engine.Config{})
	require.NoError(t, alone.NewSession().PutScript("sha", engine.Script{Body: "x"}))
	require.False(t, alone.ScriptsKept())
}
