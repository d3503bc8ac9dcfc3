package checks

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/policy"
	"github.com/headgate-io/headgate/policy/grammar"
)

// Limits beyond the room that there is share their counts; those that have counts
// of their own keep them.
func TestRoomForCounts(t *testing.T) {
	compiled := func(text string) *policy.Policy {
		rec, err := grammar.ParseRecord("p", "p", []byte(text))
		require.NoError(t, err)
		e := policy.NewSet(policy.Config{}).Edit()
		e.Set(rec, policy.Meta{})
		set, err := e.Finish(1)
		require.NoError(t, err)
		return set.Policy([]byte("p"))
	}
	all := NewTallies()
	rest := all.rest
	all.counting.Store(countedMost - 2)
	p := compiled("{limits: {a: {rate: 1/s}, b: {rate: 2/s}, c: {rate: 3/s}}}")
	all.Attach([]Swap{{Is: p}})
	all.Replace([]Swap{{Is: p}})
	require.EqualValues(t, countedMost, all.counting.Load())
	k := attachedTo(p)
	require.NotSame(t, rest, k.lists)
	require.NotSame(t, rest, k.limits[0].tally)
	require.Same(t, rest, k.limits[1].tally)
	require.Same(t, rest, k.limits[2].tally)

	all.counting.Store(countedMost - 1)
	next := compiled("{limits: {c: {rate: 3/s}, d: {rate: 4/s}, a: {rate: 1/s}}}")
	all.Attach([]Swap{{p, next}})
	require.Same(t, k.lists, attachedTo(next).lists)
	require.NotSame(t, rest, attachedTo(next).limits[0].tally, "there is room now")
	require.Same(t, rest, attachedTo(next).limits[1].tally)
	require.Same(t, k.limits[0].tally, attachedTo(next).limits[2].tally)
}
