package limits

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/headgate-io/headgate/server/command"
)

// Whatever the parser accepts, the key specification finds its Keys: EXEC locks
// by the one what the handler touches by the other.
func TestChainKeysAreFound(t *testing.T) {
	words := []string{"AND", "and", "1", "5", "1s", "COST", "BURST", "PEEK", "FORCE", "ALGORITHM", "fixed", "ALIGN", "first", "WAIT", "DEBT", "SYNC", "k"}
	accepted := 0
	rapid.Check(t, func(t *rapid.T) {
		args := [][]byte{[]byte("RL.LIMIT"), []byte("k"), []byte("1"), []byte("1")}
		for range rapid.IntRange(0, 4).Draw(t, "parts") {
			if rapid.Bool().Draw(t, "segment") {
				args = append(args, []byte("AND"), []byte(rapid.SampledFrom(words).Draw(t, "key")), []byte("1"), []byte("1"))
				continue
			}
			for _, w := range rapid.SliceOfN(rapid.SampledFrom(words), 1, 2).Draw(t, "options") {
				args = append(args, []byte(w))
			}
		}
		var chain command.Chain
		p := limitParser{chain: &chain}
		if p.parse(args[1:]) != nil {
			return
		}
		accepted++
		var want, got []string
		for _, seg := range chain.Segs {
			want = append(want, string(seg.Key))
		}
		for _, i := range limitKeys(args, nil) {
			got = append(got, string(args[i]))
		}
		require.Equal(t, want, got, "%q", args)
	})
	require.Positive(t, accepted)
}
