package disk

import (
	"math"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"
)

func TestOwnSync(t *testing.T) {
	own := new(ownSync)
	require.NoError(t, own.Await(math.MaxUint64), "nothing is unsynced")
	release := make(chan error)
	own.begin(7, func() error { return <-release })
	require.NoError(t, own.Await(6))
	args := &raft.AppendEntriesRequest{LeaderCommitIndex: 9, Term: 3}
	require.EqualValues(t, 6, own.Capped(args).LeaderCommitIndex)
	require.EqualValues(t, 3, own.Capped(args).Term)
	require.EqualValues(t, 9, args.LeaderCommitIndex)
	release <- nil
	require.NoError(t, own.Await(math.MaxUint64))
	require.Same(t, args, own.Capped(args))
}

// A node that has not synced all it has written obeys no later leader, and
// votes for nobody.
func TestTermsAndVotesWaitForTheLog(t *testing.T) {
	store, err := Open(t.TempDir(), true)
	require.NoError(t, err)
	defer store.Close()
	for _, key := range []string{"CurrentTerm", "LastVoteTerm"} {
		log := new(Log)
		s := NewVotes(store.Stable, log, func(err error) { t.Error(err) })
		release := make(chan struct{})
		log.ownSync.begin(1, func() error { <-release; return nil })
		done := make(chan error, 1)
		go func() { done <- s.SetUint64([]byte(key), 5) }()
		select {
		case <-done:
			t.Fatal(key, " was written first")
		case <-time.After(300 * time.Millisecond):
		}
		close(release)
		require.NoError(t, <-done)
		term, err := store.Stable.GetUint64([]byte(key))
		require.NoError(t, err)
		require.EqualValues(t, 5, term)
	}
}
