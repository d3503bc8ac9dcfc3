package limits

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/policy"
)

// Limits beyond the room that there is share their counts; those that have counts
// of their own keep them.
func TestRoomForCounts(t *testing.T) {
	compiled := func(text string) *policy.Policy {
		rec, err := policy.ParseRecord("p", "p", []byte(text))
		require.NoError(t, err)
		e := policy.NewSet(policy.Config{}).Edit()
		e.Set(rec, policy.Meta{})
		set, err := e.Finish(1)
		require.NoError(t, err)
		return set.Policy([]byte("p"))
	}
	rest, room := newTally(), 2
	b := &Book{rest: rest}
	p := compiled("{limits: {a: {rate: 1/s}, b: {rate: 2/s}, c: {rate: 3/s}}}")
	b.know(p, nil, &room)
	require.Zero(t, room)
	k := knownOf(p)
	require.NotSame(t, rest, k.lists)
	require.NotSame(t, rest, k.limits[0].tally)
	require.Same(t, rest, k.limits[1].tally)
	require.Same(t, rest, k.limits[2].tally)

	room = 1
	next := compiled("{limits: {c: {rate: 3/s}, d: {rate: 4/s}, a: {rate: 1/s}}}")
	b.know(next, p, &room)
	require.Same(t, k.lists, knownOf(next).lists)
	require.NotSame(t, rest, knownOf(next).limits[0].tally, "there is room now")
	require.Same(t, rest, knownOf(next).limits[1].tally)
	require.Same(t, k.limits[0].tally, knownOf(next).limits[2].tally)
}
