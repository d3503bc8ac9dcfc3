package disk

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/raftlog/stable"
)

// A vote is one change of the file: its term is not written without for whom it
// was. A new term is written at once.
func TestAVoteIsOneChange(t *testing.T) {
	dir := t.TempDir()
	store, err := Open(dir, true)
	require.NoError(t, err)
	defer store.Close()
	s := NewVotes(store.Stable, new(Log), func(err error) { t.Error(err) })
	onDisk := func() (term, vote uint64, candidate string) {
		b, err := os.ReadFile(filepath.Join(dir, stableFile))
		require.NoError(t, err)
		copied := filepath.Join(t.TempDir(), stableFile)
		require.NoError(t, os.WriteFile(copied, b, 0o644))
		c, _, err := stable.Open(copied, true)
		require.NoError(t, err)
		defer c.Close()
		term, err = stable.Number(c, []byte("CurrentTerm"))
		require.NoError(t, err)
		vote, err = stable.Number(c, []byte("LastVoteTerm"))
		require.NoError(t, err)
		candidate, err = stable.Text(c, []byte("LastVoteCand"))
		require.NoError(t, err)
		return term, vote, candidate
	}
	for term := uint64(1); term < 4; term++ {
		require.NoError(t, s.SetUint64([]byte("CurrentTerm"), term))
		now, _, _ := onDisk()
		require.Equal(t, term, now)
		require.NoError(t, s.SetUint64([]byte("LastVoteTerm"), term))
		_, vote, _ := onDisk()
		require.Equal(t, term-1, vote)
		vote, err := s.GetUint64([]byte("LastVoteTerm"))
		require.NoError(t, err)
		require.Equal(t, term, vote)
		require.NoError(t, s.Set([]byte("LastVoteCand"), []byte{'n', byte('0' + term)}))
		_, vote, candidate := onDisk()
		require.Equal(t, term, vote)
		require.Equal(t, string([]byte{'n', byte('0' + term)}), candidate)
	}
}
