package policy_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/policy"
	"github.com/headgate-io/headgate/policy/grammar"
	"github.com/headgate-io/headgate/policy/policytest"
)

// someLimits returns a set with a policy of n limits as services have them, and
// the attributes of a call to which all apply.
func someLimits(t testing.TB, n int) (*policy.Set, []string) {
	limits := []string{
		"user: {by: user, rate: 5/m}",
		"ip: {by: ip, rate: 10/m}",
		"all: {rate: 50_000/s}",
		"net: {by: {ip: {v4: 24, v6: 48}}, rate: 300/m}",
		"write: {by: [tenant, user|ip], rate: 100/s burst 200, when: {method: [POST, PUT], route: /v1/pay/*}}",
		"tier: {by: tenant, tiers: {attribute: tier, free: 100/m, pro: 10_000/m, default: 100/m}}",
		"tokens: {by: tenant, rate: 500_000/day, algorithm: fixed, cost: tokens}",
		"route: {by: [tenant, route], rate: 100/s}",
		"burst: {by: user, rate: 20/s, algorithm: sliding}",
		"shadow: {by: tenant, rate: 1/s, mode: shadow}",
	}
	s := policytest.Load(t, "policies: {shop/pay: {limits: {"+strings.Join(limits[:n], ", ")+"}}}")
	return s, []string{
		"user", "eve", "ip", "2001:db8:1:2::3", "tenant", "acme", "method", "POST", "route", "/v1/pay/card",
		"tier", "pro", "tokens", "1200",
	}
}

// matcher returns a function that makes a call and matches it.
func matcher(t testing.TB, s *policy.Set, attrs []string) func() {
	c := policy.NewCall()
	name := []byte("shop/pay")
	views := make([][]byte, len(attrs))
	for i, a := range attrs {
		views[i] = []byte(a)
	}
	return func() {
		c.Begin(s.Policy(name))
		for i := 0; i < len(views); i += 2 {
			if err := c.Set(views[i], views[i+1]); err != nil {
				t.Fatal(err)
			}
		}
		if v, err := c.Match(1); err != nil || v != policy.Decide {
			t.Fatal(v, err)
		}
	}
}

func TestMatchAllocatesNothing(t *testing.T) {
	f := func(s *policy.Set, attrs []string, n int) {
		t.Helper()
		require.Len(t, policytest.Applied(t, policytest.Call(t, s, "shop/pay", attrs...), 1), n)
		require.Zero(t, testing.AllocsPerRun(100, matcher(t, s, attrs)))
	}
	for _, n := range []int{1, 3, 10} {
		s, attrs := someLimits(t, n)
		f(s, attrs, n)
		o, err := policytest.Call(t, s, "shop/pay", "user", "eve").LimitOverride("user", policy.Rate{Amount: 9, Period: int64(time.Second)}, 0)
		require.NoError(t, err)
		s = policytest.Override(t, s, o)
		f(s, attrs, n)
		if o, err = policytest.Call(t, s, "shop/pay", "tenant", "acme").TierOverride("free", 0); n == 10 {
			require.NoError(t, err)
			s = policytest.Override(t, s, o)
			f(s, attrs, n)
		}
		o, err = s.Policy([]byte("shop/pay")).ScaleOverride(50, 0)
		require.NoError(t, err)
		f(policytest.Override(t, s, o), attrs, n)
	}
	s := policytest.Load(t, "policies: {shop/pay: {attributes: {mail: {type: lower}, key: {type: [lower, secret]}}, limits: {mail: {by: [mail, key, long], rate: 1/s}}}}")
	f(s, []string{"mail", "Ärger@X Y", "key", "SK", "long", strings.Repeat("x", 4000), "other", "unknown"}, 1)
}

func BenchmarkMatch(b *testing.B) {
	for _, n := range []int{1, 3, 10} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s, attrs := someLimits(b, n)
			f := matcher(b, s, attrs)
			b.ReportAllocs()
			for b.Loop() {
				f()
			}
		})
	}
}

// tenThousand is a file of as many policies.
func tenThousand() []byte {
	var b strings.Builder
	b.WriteString("policies:\n")
	for i := range policy.MaxPolicies {
		fmt.Fprintf(&b, "  team%d/api:\n    on_failure: closed\n    limits:\n      ip:  {by: ip, rate: 10/m}\n      key: {by: key, tiers: {attribute: tier, free: %d/m, pro: 600/m burst 100, default: 60/m}}\n      all: {rate: 50_000/s, status: 503}\n", i, i+1)
	}
	return []byte(b.String())
}

func BenchmarkLoadTenThousandPolicies(b *testing.B) {
	text := tenThousand()
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		policytest.Load(b, string(text))
	}
}

// One of ten thousand is set again.
func BenchmarkSetOneOfTenThousand(b *testing.B) {
	s := policytest.Load(b, string(tenThousand()))
	r, err := grammar.ParseRecord("", "team7/api", []byte("limits: {all: {rate: 1/s}}"))
	require.NoError(b, err)
	b.ReportAllocs()
	for b.Loop() {
		e := s.Edit()
		e.Set(r, policy.Meta{})
		_, err := e.Finish(1)
		require.NoError(b, err)
	}
}

func BenchmarkOverrides(b *testing.B) {
	s, attrs := someLimits(b, 3)
	const n = 100_000
	one, err := policytest.Call(b, s, "shop/pay", "user", "eve").LimitOverride("user", policy.Rate{Amount: 9, Period: int64(time.Second)}, 0)
	require.NoError(b, err)
	e := s.Edit()
	for i := range n {
		one.By = fmt.Sprintf(";user=u%d", i)
		e.SetOverride(one)
	}
	full, err := e.Finish(2)
	require.NoError(b, err)
	b.Run("none", func(b *testing.B) {
		f := matcher(b, s, attrs)
		for b.Loop() {
			f()
		}
	})
	b.Run("hit", func(b *testing.B) {
		attrs[1] = "u777"
		f := matcher(b, full, attrs)
		for b.Loop() {
			f()
		}
	})
	b.Run("set one more", func(b *testing.B) {
		one.By = ";user=new"
		for b.Loop() {
			e := full.Edit()
			e.SetOverride(one)
			_, err := e.Finish(3)
			require.NoError(b, err)
		}
	})
}
