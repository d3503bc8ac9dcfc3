package policy_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/policy"
)

// patterned has n patterns at a level; each is what make makes of a text that no
// other one has.
func patterned(t testing.TB, n int, make func(unique string) string) *policy.Policy {
	const limit = "rate_limit: {unit: day, requests_per_unit: 1}"
	text := "descriptors: [{key: k, " + limit + "}"
	for i := range n {
		text += fmt.Sprintf(`, {key: k, value: "%s", %s}`, make(fmt.Sprintf("%c%c", 'b'+i/10, 'b'+i%10)), limit)
	}
	return descriptorPolicy(t, text+"]")
}

// costly are patterns and values that are made to cost.
var costly = []struct {
	name, value string
	n           int
	pattern     func(unique string) string
}{
	{"none", strings.Repeat("a", policy.MaxValue), 0, nil},
	{"begins", strings.Repeat("a", policy.MaxValue), wildcards, func(u string) string { return strings.Repeat("a", 500) + u + "*" }},
	{"ends", strings.Repeat("a", policy.MaxValue), wildcards, func(u string) string { return "*" + u }},
	{"has", strings.Repeat("a", policy.MaxValue), wildcards, func(u string) string { return "*" + strings.Repeat("a", 100) + u + "*" }},
	{"pieces", strings.Repeat("a", policy.MaxValue), wildcards, func(u string) string { return strings.Repeat("*a", 250) + u + "*" }},
	{"found", strings.Repeat("a", policy.MaxValue), 15, func(u string) string { return strings.Repeat("*a", 2000) + u + "*" }},
	{"short", "xyz", wildcards, func(u string) string { return "x*" + u }},
}

// A request of the most descriptors compares at most its bound, and gets an
// error if it needs more.
func TestPatternsCompareWithinBounds(t *testing.T) {
	for _, x := range costly {
		p, a := patterned(t, x.n, x.pattern), asked("k="+x.value)
		var c policy.Descriptor
		c.Begin(p, 1, 0)
		var err error
		for range policy.MaxDescriptors {
			if err = c.Add(a); err != nil {
				break
			}
		}
		require.LessOrEqual(t, c.Compared(), policy.MaxCompared+2*policy.MaxValue*policy.CostOfPiece, x.name)
		switch x.name {
		case "has", "pieces", "found":
			require.ErrorIs(t, err, policy.ErrCompared, x.name)
			require.Error(t, c.Add(asked("k=bb")), "what is behind it is not looked up either")
		default:
			require.NoError(t, err, x.name)
			require.NoError(t, c.Finish())
		}
		c.Begin(p, 1, 0)
		require.NoError(t, c.Add(asked("k=")), "the next request begins anew")
	}
	// Any value can be compared with some.
	p := patterned(t, 15, func(u string) string { return "*aaa" + u + "*" })
	var c policy.Descriptor
	c.Begin(p, 1, 0)
	require.NoError(t, c.Add(asked("k="+strings.Repeat("a", policy.MaxValue))))
}

// A pattern is not tried anew from each place where a piece of it is.
func TestPatternsDoNotGoBack(t *testing.T) {
	p := descriptorPolicy(t, `{descriptors: [{key: k, value: "`+strings.Repeat("*a", 500)+`*b", rate_limit: {unit: day, requests_per_unit: 1}}, {key: k, value: "x**y***z", rate_limit: {unit: day, requests_per_unit: 1}}]}`)
	require.Equal(t, []string{"x", "y", "z"}, policy.StarPieces("x**y***z"), "stars in a row are one")
	for value, want := range map[string]bool{
		strings.Repeat("a", policy.MaxValue): false, strings.Repeat("a", 499) + "b": false, strings.Repeat("a", 500) + "b": true, strings.Repeat("ca", 1000) + "b": true,
		"xyz": true, "x-y-z": true, "xz": false, "xyyzz": true,
	} {
		var c policy.Descriptor
		c.Begin(p, 1, 0)
		require.NoError(t, c.Add(asked("k="+value)))
		require.Equal(t, want, c.Matched[0].Rule != nil, "%.20q", value)
	}
}

// The cost of a request whose descriptors cost the most.
func BenchmarkCostlyDescriptors(b *testing.B) {
	for _, x := range costly {
		p, a := patterned(b, x.n, x.pattern), asked("k="+x.value)
		b.Run(x.name, func(b *testing.B) {
			var c policy.Descriptor
			for b.Loop() {
				c.Begin(p, 1, 0)
				for range policy.MaxDescriptors {
					if c.Add(a) != nil {
						break
					}
				}
			}
		})
	}
}

// wildcards is how many patterns a level may have.
const wildcards = 100
