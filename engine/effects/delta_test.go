package effects_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/engine/effects"
	"github.com/headgate-io/headgate/shard"
)

// delta returns the delta between two texts of one counter.
func delta(t *testing.T, was, is []byte) *effects.Delta {
	limits := make(limits)
	id := limits.add(algo.Limit{Algorithm: algo.Counter})
	var c effects.Changer
	d := c.Between(limits, &shard.Image{Meta: id, State: was}, &shard.Image{Meta: id, State: is})
	require.NotNil(t, d)
	return &effects.Delta{Base: bytes.Clone(d.Base), Difference: bytes.Clone(d.Difference)}
}

func TestADeltaAppliesToItsBaseAlone(t *testing.T) {
	was := bytes.Repeat([]byte("sixteen bytes.. "), 100)
	is := bytes.Clone(was)
	copy(is[800:], "something else")
	d := delta(t, was, is)
	require.Less(t, len(d.Difference), 64)

	var r effects.Rebaser
	got, err := r.Rebase(algo.Counter, was, d)
	require.NoError(t, err)
	require.Equal(t, string(is), string(got))

	other := bytes.Clone(was)
	other[0]++
	_, err = r.Rebase(algo.Counter, other, d)
	require.ErrorIs(t, err, effects.ErrOtherBase)
	_, err = r.Rebase(algo.HoldRecord, was, d)
	require.ErrorIs(t, err, effects.ErrOtherBase, "the same bytes of another kind")

	d.Difference = append(d.Difference, 1)
	_, err = r.Rebase(algo.Counter, was, d)
	require.ErrorIs(t, err, effects.ErrEffects)
}

// A delta is worthwhile for a large state of one kind that stays mostly the same.
func TestWhatHasNoDelta(t *testing.T) {
	limits := make(limits)
	text, fixed := limits.add(algo.Limit{Algorithm: algo.Counter}), limits.add(algo.Limit{Algorithm: algo.Fixed, Limit: 1, Period: 1})
	var c effects.Changer
	none := func(was, is shard.Image) {
		t.Helper()
		require.Nil(t, c.Between(limits, &was, &is))
	}
	large := bytes.Repeat([]byte("12345678"), 100)
	none(shard.Image{Meta: text, State: large[:128]}, shard.Image{Meta: text, State: large[:128]})
	none(shard.Image{Meta: fixed, State: large}, shard.Image{Meta: text, State: large})
	none(shard.Image{Meta: text, State: large}, shard.Image{Meta: text, State: bytes.Repeat([]byte("abcdefgh"), 100)})
}
