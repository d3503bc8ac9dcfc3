package limits

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/server/command"
)

// RL.LIMIT reads what AppendLimit writes.
func TestAppendLimitRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		segs := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) engine.Segment {
			return engine.Segment{
				Key: []byte(rapid.SampledFrom([]string{"k", "AND", "COST", ""}).Draw(t, "key")),
				Limit: algo.Limit{
					Limit: rapid.Int64().Draw(t, "limit"), Period: rapid.Int64Min(1).Draw(t, "period"), Burst: rapid.Int64Min(0).Draw(t, "burst"),
					Algorithm: rapid.SampledFrom([]algo.Algorithm{algo.Token, algo.Leaky, algo.Fixed, algo.Sliding, algo.Log}).Draw(t, "algorithm"),
					Align:     rapid.SampledFrom([]algo.Align{algo.Epoch, algo.First}).Draw(t, "align"),
				},
				Cost: rapid.Int64().Draw(t, "cost"),
			}
		}), 1, 3).Draw(t, "segs")
		o := algo.Options{
			Peek: rapid.Bool().Draw(t, "peek"), Force: rapid.Bool().Draw(t, "force"), AtMost: rapid.Bool().Draw(t, "atmost"),
			Wait: rapid.SampledFrom([]int64{0, algo.NoWait, int64(time.Millisecond), int64(time.Hour)}).Draw(t, "wait"),
			Debt: rapid.Int64Min(0).Draw(t, "debt"),
		}
		if Check(segs, &o) != nil {
			return
		}
		sync := rapid.SampledFrom([]command.SyncMode{command.SyncDefault, command.SyncCommit, command.SyncNone}).Draw(t, "sync")
		var chain command.Chain
		p := limitParser{chain: &chain}
		require.NoError(t, p.parse(AppendLimit(nil, segs, &o, sync)[1:]))
		require.Equal(t, segs, chain.Segs)
		require.Equal(t, o, chain.Opts)
		require.Equal(t, sync, p.sync)
	})
}
