package policy_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/policy"
	"github.com/headgate-io/headgate/policy/policytest"
)

func TestSetsDoNotChange(t *testing.T) {
	a := policytest.With(t, policytest.Empty(), policytest.Record(t, "p", "limits: {l: {rate: 1/s}}"), policytest.Record(t, "q", "limits: {l: {rate: 1/s}}"))
	e := a.Edit()
	e.Set(policytest.Record(t, "p", "limits: {l: {rate: 2/s}}"), policy.Meta{Version: 7})
	e.Set(policytest.Record(t, "r", "limits: {l: {rate: 3/s}}"), policy.Meta{})
	require.True(t, e.Delete("q"))
	require.False(t, e.Delete("q"))
	b, err := e.Finish(9)
	require.NoError(t, err)

	require.Equal(t, []string{"p", "q"}, a.Names())
	require.Equal(t, []string{"p", "r"}, b.Names())
	require.Equal(t, []uint64{1, 9}, []uint64{a.Revision(), b.Revision()})
	require.Equal(t, []string{"@p:l 1/s"}, policytest.Applied(t, policytest.Call(t, a, "p"), 0))
	require.Equal(t, []string{"@p:l 2/s"}, policytest.Applied(t, policytest.Call(t, b, "p"), 0))
	require.Nil(t, b.Policy([]byte("q")))
	require.Equal(t, uint64(7), b.Policy([]byte("p")).Version)
	require.Equal(t, b.Policy([]byte("p")), policytest.Call(t, b, "p").Policy())
}

// Records that policies share are compiled into them anew when they change.
func TestSharedRecordsReachPolicies(t *testing.T) {
	s := policytest.With(t, policytest.Empty(),
		policytest.Record(t, "p", "limits: {l: {by: mail, rate: 1/s, when: {user: {list: vips}}}}"),
		policytest.Record(t, "own", "{attributes: {mail: {}}, lists: {vips: [x]}, limits: {l: {by: mail, rate: 1/s, when: {user: {list: vips}}}}}"),
		policytest.Record(t, "lists/vips", "[eve]"))
	f := func(s *policy.Set, name, user string, want ...string) {
		t.Helper()
		require.Equal(t, append([]string{}, want...), policytest.Applied(t, policytest.Call(t, s, name, "mail", "A@x", "user", user), 0))
	}
	f(s, "p", "eve", "@p:l;mail=A@x 1/s")
	f(s, "p", "bob")

	next := policytest.With(t, s, policytest.Record(t, "lists/vips", "[bob]"), policytest.Record(t, "attributes", "{mail: {type: lower}}"))
	f(next, "p", "eve")
	f(next, "p", "bob", "@p:l;mail=a@x 1/s")
	f(next, "own", "x", "@own:l;mail=A@x 1/s")
	f(next, "own", "bob")
	f(s, "p", "eve", "@p:l;mail=A@x 1/s")

	e := next.Edit()
	require.True(t, e.Delete("attributes"))
	next, err := e.Finish(5)
	require.NoError(t, err)
	f(next, "p", "bob", "@p:l;mail=A@x 1/s")

	// A list in use stays.
	e = next.Edit()
	require.True(t, e.Delete("lists/vips"))
	_, err = e.Finish(6)
	require.EqualError(t, err, `p.yaml:1:55: limits.l.when.user.list: there is no list "vips"`)
	e = next.Edit()
	require.True(t, e.Delete("lists/vips"))
	require.True(t, e.Delete("p"))
	_, err = e.Finish(6)
	require.NoError(t, err)

	// A type that a policy cannot have is refused with the policy's place.
	e = next.Edit()
	e.Set(policytest.Record(t, "attributes", "{user: {type: ip}}"), policy.Meta{})
	_, err = e.Finish(6)
	var errs *policy.Errors
	require.ErrorAs(t, err, &errs)
	require.Len(t, errs.List, 2)
	require.EqualError(t, errs.List[1], `p.yaml:1:55: limits.l.when.user.list: list "vips", entry on line 1: "bob" is not an IP address or a CIDR such as 203.0.113.0/24`)
}

func TestASetHasABoundOfPolicies(t *testing.T) {
	e := policytest.Empty().Edit()
	r := policytest.Record(t, "p", "limits: {l: {rate: 1/s}}")
	for i := range policy.MaxPolicies + 1 {
		again := *r
		again.Name = "p" + policy.FormatDuration(int64(i)*7+1)
		e.Set(&again, policy.Meta{})
	}
	_, err := e.Finish(1)
	require.EqualError(t, err, "there may be at most 10000 policies")
}

// Resets are known of limits and policies that are gone, too.
func TestVoid(t *testing.T) {
	e := policytest.Empty().Edit()
	epochs := map[string]policy.LimitEpoch{"a": {Reset: 3}, "b": {Proportion: 7}, "gone": {Reset: 1}, "far": {Reset: 1<<16 + 2}}
	e.Set(policytest.Record(t, "p", "limits: {a: {by: u, rate: 1/s}, b: {rate: 1/s}}"), policy.Meta{Epochs: epochs})
	s, err := e.Finish(1)
	require.NoError(t, err)
	f := func(key string, resets uint16, want bool) {
		t.Helper()
		require.Equal(t, want, s.Void([]byte(key), resets), key)
	}
	all := func() {
		t.Helper()
		f("@p:a;u=x:y;v=@p:b", 2, true)
		f("@p:a;u=x", 3, false)
		f("@p:a;u=x", 4, false) // of an edit that this set does not have yet
		f("@p:a", 0, true)
		f("@p:b", 0, false)
		f("@p:gone", 0, true)
		f("@p:gone", 1, false)
		f("@p:far", 1, true)
		f("@p:far", 2, false)
		f("@p:far", 1<<16-1, true)
		f("@p:none", 0, false)
		f("@q:a;u=x", 0, false)
		for _, key := range []string{"", ":", "@", "@:", "@;", "p:a", ";@p:a"} {
			f(key, 0, false)
		}
	}
	all()
	e = s.Edit()
	require.True(t, e.Retire("p", epochs))
	s, err = e.Finish(2)
	require.NoError(t, err)
	all()
	s = policytest.With(t, s, policytest.Record(t, "q", "limits: {a: {rate: 1/s}}"))
	all()
	s = policytest.With(t, s, policytest.Record(t, "p", "limits: {a: {rate: 1/s}}"))
	f("@p:a;u=x", 0, false)
	require.Zero(t, s.Gone())
}
