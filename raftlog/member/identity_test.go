package member

import (
	"bytes"
	"log/slog"
	"net"
	"path/filepath"
	"testing"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/raftlog/stable"
)

func testIdentity(t *testing.T, s raft.StableStore, node string, holds bool) *Identity {
	i, err := Open(s, node, 1, holds, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	return i
}

// values returns a values store.
func values(t *testing.T) raft.StableStore {
	s, _, err := stable.Open(filepath.Join(t.TempDir(), "stable"), true)
	require.NoError(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

// A node takes its cluster's id from the leader that takes it in, once, and
// hears nobody before.
func TestIdentityComesWithTheCluster(t *testing.T) {
	var from net.TCPAddr
	s := values(t)
	joiner := testIdentity(t, s, "b", false)
	require.ErrorIs(t, joiner.Meet("first", joiner.Data(), &from), ErrOtherCluster, "whoever connects")
	require.ErrorIs(t, joiner.Meet("", joiner.Data(), &from), ErrOtherCluster)
	require.Empty(t, joiner.Cluster())
	require.False(t, joiner.Foreign("first"))
	require.NoError(t, joiner.Adopt("first"))
	require.NoError(t, joiner.Meet("first", joiner.Data(), &from))
	require.ErrorIs(t, joiner.Meet("another", joiner.Data(), &from), ErrOtherCluster)
	require.ErrorIs(t, joiner.Meet("first", "what it has lost", &from), ErrOtherData)
	require.ErrorIs(t, joiner.Adopt("another"), ErrOtherCluster)
	require.NoError(t, joiner.Adopt("first"), "again")
	require.True(t, joiner.Foreign("another"))
	_, free := joiner.free()
	require.False(t, free, "it founds no other")

	joiner = testIdentity(t, s, "b", true)
	require.ErrorIs(t, joiner.Meet("another", joiner.Data(), &from), ErrOtherCluster)
	require.NoError(t, joiner.Meet("first", joiner.Data(), &from))
	require.ErrorIs(t, joiner.Adopt("another"), ErrOtherCluster)
	joiner = testIdentity(t, s, "b", false)
	require.Empty(t, joiner.Cluster(), "it was stopped before it got anything")
	require.NoError(t, joiner.Adopt("another"))

	var logged bytes.Buffer
	known, err := Open(s, "b", 1, true, slog.New(slog.NewTextHandler(&logged, nil)))
	require.NoError(t, err)
	require.ErrorIs(t, known.Meet("", known.Data(), &from), ErrOtherCluster, "a founder that does not know its cluster yet")
	require.Empty(t, logged.String(), "nobody need act")
	require.ErrorIs(t, known.Meet("another's", known.Data(), &from), ErrOtherCluster)
	require.Contains(t, logged.String(), "another cluster")

	_, err = Open(s, "c", 1, true, slog.New(slog.DiscardHandler))
	require.ErrorIs(t, err, ErrOtherNode)
}

// The number of groups is stored with the cluster, and is 1 where nothing says otherwise.
func TestGroupsAreStoredWithTheCluster(t *testing.T) {
	open := func(s raft.StableStore, groups int, holds bool) (*Identity, error) {
		return Open(s, "a", groups, holds, slog.New(slog.DiscardHandler))
	}
	stored := func(s raft.StableStore) int {
		n, err := Groups(s)
		require.NoError(t, err)
		return n
	}
	s := values(t)
	id, err := open(s, 12, false)
	require.NoError(t, err)
	require.Zero(t, stored(s), "it belongs to none")
	require.NoError(t, id.Adopt("x"))
	require.Equal(t, 12, stored(s))
	_, err = open(s, 12, true)
	require.NoError(t, err)
	_, err = open(s, 1, true)
	require.ErrorIs(t, err, ErrGroups)

	// An unfinished start counts for nothing.
	id, err = open(s, 1, false)
	require.NoError(t, err)
	require.NoError(t, id.Adopt("y"))
	require.Equal(t, 1, stored(s))
	require.NoError(t, stable.SetText(s, groupsKey, "-1"))
	_, err = Groups(s)
	require.ErrorIs(t, err, ErrCorrupt)
}

// A founding carries the number of groups. A founder with another number refuses it, also
// after a restart.
func TestAFoundingHasItsGroups(t *testing.T) {
	open := func(s raft.StableStore, groups int) (*Identity, error) {
		return Open(s, "a", groups, false, slog.New(slog.DiscardHandler))
	}
	of := func(id *Identity, groups int) founding {
		token, _ := id.free()
		return founding{ID: "x", Proposer: "b", Groups: groups, Founders: []founder{{"a", "h:1", id.Data(), token}, {"b", "h:2", "b's", "b's"}, {"c", "h:3", "c's", "c's"}}}
	}
	for _, own := range []int{1, 12} {
		s := values(t)
		id, err := open(s, own)
		require.NoError(t, err)
		stages, err := id.hear(word{of(id, 6), "b", nil}, 3)
		require.NoError(t, err)
		require.Equal(t, []stage{released, unknown, unknown}, stages)
		n, err := Groups(s)
		require.NoError(t, err)
		require.Zero(t, n)

		f := of(id, own)
		if own == 1 {
			f.Groups = 0 // as of a build without groups
		}
		stages, err = id.hear(word{f, "b", nil}, 3)
		require.NoError(t, err)
		require.Equal(t, []stage{accepted, accepted, unknown}, stages)
		n, err = Groups(s)
		require.NoError(t, err)
		require.Equal(t, own, n)
		_, err = open(s, own)
		require.NoError(t, err)
		_, err = open(s, 6)
		require.ErrorIs(t, err, ErrGroups)
	}
}

// After a crash a founder knows what it has accepted, and joins nothing else
// before that is decided.
func TestPledgeIsKept(t *testing.T) {
	s := values(t)
	a := testIdentity(t, s, "a", false)
	token, free := a.free()
	require.True(t, free)
	f := founding{ID: "first", Proposer: "b", Founders: []founder{{"a", "h:1", a.Data(), token}, {"b", "h:2", "b's", "b's"}, {"c", "h:3", "c's", "c's"}}}
	stages, err := a.hear(word{f, "c", nil}, 3)
	require.NoError(t, err)
	require.Equal(t, []stage{released, unknown, unknown}, stages, "not from the proposer")
	f.Founders[0].Token, _ = a.free()
	stages, err = a.hear(word{f, "b", nil}, 3)
	require.NoError(t, err)
	require.Equal(t, []stage{accepted, accepted, unknown}, stages)

	a = testIdentity(t, s, "a", false)
	bound, at, _ := a.bound()
	require.Equal(t, f, *bound)
	require.Equal(t, accepted, at)
	require.ErrorContains(t, a.Adopt("another"), "does not know whether")
	require.NoError(t, a.Adopt("first"))
	_, at, _ = testIdentity(t, s, "a", false).bound()
	require.Equal(t, founded, at, "its leader knows")

	require.NoError(t, stable.SetText(s, pledgeKey, "{\"founding\":{}}"))
	_, err = Open(s, "a", 1, false, slog.New(slog.DiscardHandler))
	require.ErrorIs(t, err, ErrCorrupt)
}

// recovered makes s the data of a node after a recovery.
func recovered(s raft.StableStore, node string, voters []Voter) error {
	_, err := Recover(s, node, voters)
	return err
}

func TestRecoveredVotersAgree(t *testing.T) {
	var ids []string
	voters := []Voter{{"a", "h:1"}, {"b", "h:2"}}
	for _, node := range []string{"a", "b"} {
		s := values(t)
		testIdentity(t, s, node, false)
		require.NoError(t, stable.SetText(s, clusterKey, "old"))
		require.NoError(t, recovered(s, node, voters[:1]), "a mistake, repeated right")
		require.NoError(t, recovered(s, node, []Voter{voters[1], voters[0]}))
		ids = append(ids, testIdentity(t, s, node, true).Cluster())
		require.ErrorIs(t, recovered(s, "c", voters), ErrOtherNode)

		require.NoError(t, recovered(s, node, voters))
		require.NotEqual(t, ids[0], testIdentity(t, s, node, true).Cluster(), "a later recovery makes another cluster")
	}
	require.Equal(t, ids[0], ids[1])
	require.NotEqual(t, "old", ids[0])
}

// Forwarded commands are executed for a node of the same cluster.
func TestSameCluster(t *testing.T) {
	id := testIdentity(t, values(t), "a", false)
	require.ErrorIs(t, id.Same(""), ErrOtherCluster, "of no cluster yet")
	require.NoError(t, id.Adopt("old"))
	require.NoError(t, id.Same("old"))
	for _, other := range []string{"new", ""} {
		require.ErrorIs(t, id.Same(other), ErrOtherCluster)
	}
}
