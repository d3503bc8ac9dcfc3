package policy

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestOverridesAreListedAndDeleted(t *testing.T) {
	s := load(t, preceding)
	var all []Override
	for i := range 700 {
		c := call(t, s, "p", "tenant", fmt.Sprintf("t %d", i))
		o, err := c.LimitOverride("plain", Rate{Amount: int64(1 + i%5), Period: int64(time.Second)}, int64(i%3))
		require.NoError(t, err)
		all = append(all, o)
		if o, err = c.TierOverride([]string{"free", "pro"}[i%2], 0); i%10 == 0 {
			require.NoError(t, err)
			all = append(all, o)
		}
	}
	scale, err := s.Policy([]byte("p")).ScaleOverride(50, 7)
	require.NoError(t, err)
	all = append(all, scale)
	e := s.Edit()
	for _, o := range all {
		e.SetOverride(o)
	}
	s, err = e.Finish(2)
	require.NoError(t, err)
	list := func(s *Set) []Override {
		list := slices.Collect(s.Overrides("p"))
		slices.SortFunc(list, func(a, b Override) int { return strings.Compare(a.ID(), b.ID()) })
		return list
	}
	slices.SortFunc(all, func(a, b Override) int { return strings.Compare(a.ID(), b.ID()) })
	require.Equal(t, all, list(s))
	require.Equal(t, len(all), s.CountOverrides("p"))
	for _, most := range []int{1, 7, 386, 771, 772, 5000} { // in pages, each once
		var got []Override
		for after := ""; ; after = got[len(got)-1].ID() {
			page := s.ListOverrides("p", after, most)
			require.LessOrEqual(t, len(page), most)
			if got = append(got, page...); len(page) < most || len(got) > len(all) {
				break
			}
		}
		require.Equal(t, all, got, "%d a page", most)
	}
	require.Empty(t, s.ListOverrides("q", "", 1))
	require.Equal(t, []string{"p"}, s.Overridden())

	// They outlive their policy.
	e = s.Edit()
	require.True(t, e.Delete("p"))
	gone, err := e.Finish(3)
	require.NoError(t, err)
	require.Nil(t, gone.Policy([]byte("p")))
	require.Equal(t, all, list(gone))
	require.True(t, gone.Sleeps(&scale))

	for i, o := range all {
		e := s.Edit()
		require.True(t, e.DeleteOverride(o))
		require.False(t, e.DeleteOverride(o))
		s, err = e.Finish(uint64(i))
		require.NoError(t, err)
	}
	require.Empty(t, list(s))
	require.Empty(t, s.Overridden())
}

// Rates that no override has any more do not pile up.
func TestRatesOfOverridesAreForgotten(t *testing.T) {
	s := load(t, preceding)
	c := call(t, s, "p", "tenant", "t")
	for i := range 100 {
		o, err := c.LimitOverride("plain", Rate{Amount: int64(1 + i), Period: int64(time.Second)}, 0)
		require.NoError(t, err)
		s = override(t, s, o)
	}
	require.Less(t, RatesOf(s, "p", "plain"), 20)
	require.Equal(t, "@p:plain;tenant=t 100/s", applied(t, call(t, s, "p", "tenant", "t"), 0)[0])
}

func TestRecordsOfOverrides(t *testing.T) {
	s := load(t, preceding)
	limit, err := call(t, s, "p", "tenant", "a;b ").LimitOverride("plain", Rate{Amount: 1, Period: 2, Burst: 3}, 4)
	require.NoError(t, err)
	blocked, err := call(t, s, "p", "tenant", strings.Repeat("x", 300)).LimitOverride("day", Rate{Kind: Blocked}, 0)
	require.NoError(t, err)
	tier, err := call(t, s, "p", "tenant", "b").TierOverride("pro", 0)
	require.NoError(t, err)
	scale, err := s.Policy([]byte("p")).ScaleOverride(1000, 1<<60)
	require.NoError(t, err)
	for _, o := range []Override{limit, blocked, tier, scale} {
		b := o.Append(nil)
		again, err := DecodeOverride(b)
		require.NoError(t, err)
		require.Equal(t, o, again)
		for i := range b {
			_, err := DecodeOverride(b[:i])
			require.ErrorIs(t, err, ErrOverrideData)
		}
		_, err = DecodeOverride(append(b, 0))
		require.ErrorIs(t, err, ErrOverrideData)
	}
	require.Equal(t, []Pair{{Name: "tenant", Value: "a;b "}}, limit.Pairs())
}

func FuzzDecodeOverride(f *testing.F) {
	o := Override{Policy: "p", Kind: OverrideLimit, Limit: "l", By: ";a=b", Rate: Rate{Amount: 1, Period: 2}}
	f.Add(o.Append(nil))
	o = Override{Policy: "p", Kind: OverrideScale, Percent: 5}
	f.Add(o.Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		o, err := DecodeOverride(b)
		if err != nil {
			return
		}
		again, err := DecodeOverride(o.Append(nil))
		require.NoError(t, err)
		require.Equal(t, o, again)
		e := emptySet().Edit()
		e.SetOverride(o)
		s, err := e.Finish(1)
		require.NoError(t, err)
		require.Equal(t, []Override{o}, slices.Collect(s.Overrides(o.Policy)))
	})
}
