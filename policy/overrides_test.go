package policy_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/policy"
	"github.com/headgate-io/headgate/policy/policytest"
)

func TestOverridesAreListedAndDeleted(t *testing.T) {
	s := policytest.Load(t, policytest.Preceding)
	var all []policy.Override
	for i := range 700 {
		c := policytest.Call(t, s, "p", "tenant", fmt.Sprintf("t %d", i))
		o, err := c.LimitOverride("plain", policy.Rate{Amount: int64(1 + i%5), Period: int64(time.Second)}, int64(i%3))
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
	list := func(s *policy.Set) []policy.Override {
		list := slices.Collect(s.Overrides("p"))
		slices.SortFunc(list, func(a, b policy.Override) int { return strings.Compare(a.ID(), b.ID()) })
		return list
	}
	slices.SortFunc(all, func(a, b policy.Override) int { return strings.Compare(a.ID(), b.ID()) })
	require.Equal(t, all, list(s))
	require.Equal(t, len(all), s.CountOverrides("p"))
	for _, most := range []int{1, 7, 386, 771, 772, 5000} { // in pages, each once
		var got []policy.Override
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
	s := policytest.Load(t, policytest.Preceding)
	c := policytest.Call(t, s, "p", "tenant", "t")
	for i := range 100 {
		o, err := c.LimitOverride("plain", policy.Rate{Amount: int64(1 + i), Period: int64(time.Second)}, 0)
		require.NoError(t, err)
		s = policytest.Override(t, s, o)
	}
	require.Less(t, policy.RatesOf(s, "p", "plain"), 20)
	require.Equal(t, "@p:plain;tenant=t 100/s", policytest.Applied(t, policytest.Call(t, s, "p", "tenant", "t"), 0)[0])
}

func TestRecordsOfOverrides(t *testing.T) {
	s := policytest.Load(t, policytest.Preceding)
	limit, err := policytest.Call(t, s, "p", "tenant", "a;b ").LimitOverride("plain", policy.Rate{Amount: 1, Period: 2, Burst: 3}, 4)
	require.NoError(t, err)
	blocked, err := policytest.Call(t, s, "p", "tenant", strings.Repeat("x", 300)).LimitOverride("day", policy.Rate{Kind: policy.Blocked}, 0)
	require.NoError(t, err)
	tier, err := policytest.Call(t, s, "p", "tenant", "b").TierOverride("pro", 0)
	require.NoError(t, err)
	scale, err := s.Policy([]byte("p")).ScaleOverride(1000, 1<<60)
	require.NoError(t, err)
	for _, o := range []policy.Override{limit, blocked, tier, scale} {
		b := o.Append(nil)
		again, err := policy.DecodeOverride(b)
		require.NoError(t, err)
		require.Equal(t, o, again)
		for i := range b {
			_, err := policy.DecodeOverride(b[:i])
			require.ErrorIs(t, err, policy.ErrOverrideData)
		}
		_, err = policy.DecodeOverride(append(b, 0))
		require.ErrorIs(t, err, policy.ErrOverrideData)
	}
	require.Equal(t, []policy.Pair{{Name: "tenant", Value: "a;b "}}, limit.Pairs())
}

func FuzzDecodeOverride(f *testing.F) {
	o := policy.Override{Policy: "p", Kind: policy.OverrideLimit, Limit: "l", By: ";a=b", Rate: policy.Rate{Amount: 1, Period: 2}}
	f.Add(o.Append(nil))
	o = policy.Override{Policy: "p", Kind: policy.OverrideScale, Percent: 5}
	f.Add(o.Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		o, err := policy.DecodeOverride(b)
		if err != nil {
			return
		}
		again, err := policy.DecodeOverride(o.Append(nil))
		require.NoError(t, err)
		require.Equal(t, o, again)
		e := policytest.Empty().Edit()
		e.SetOverride(o)
		s, err := e.Finish(1)
		require.NoError(t, err)
		require.Equal(t, []policy.Override{o}, slices.Collect(s.Overrides(o.Policy)))
	})
}
