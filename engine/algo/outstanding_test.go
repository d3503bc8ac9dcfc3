package algo_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/engine/algo"
)

// A record that could not be made smaller ends with zeros. It is read like one without.
func TestARecordOfWhatIsOutMayEndWithZeros(t *testing.T) {
	const now = 1_800_000_000 * sec
	r := algo.Compile(algo.Limit{Limit: 100, Period: 60 * sec})
	fair := algo.Fair{Rate: 1<<32 - 1, Out: 1<<32 - 1}
	g := algo.Grant{Out: algo.Outstanding{Generation: 7}}
	require.NoError(t, algo.Lease(&r, algo.State{}, &algo.Block{}, false, now,
		&algo.Request{Seq: 1, Want: 10, TTL: sec, Share: 1 << 30, Fair: fair}, &g))
	record := g.Out.Append(nil)
	require.Len(t, record, 8*g.Out.Words())
	for range 4 {
		for _, room := range []int{0, algo.DueRoom} {
			o := algo.ReadOutstanding(record, make([]algo.Due, 0, room))
			require.True(t, o.Live(now))
			units, blocks := o.Sum(now)
			require.EqualValues(t, []int64{10, 1}, []int64{units, blocks})
			require.EqualValues(t, 7, o.Generation)
		}
		record = append(record, make([]byte, 24)...)
	}
	o := algo.ReadOutstanding(nil, nil)
	require.False(t, o.Live(now))
}
