package policy

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPatterns(t *testing.T) {
	f := func(p, s string, want bool) {
		t.Helper()
		v, _, err := newValues([]string{p}, 0)
		require.NoError(t, err)
		require.Equal(t, want, v.hasText([]byte(s)), "%q %q", p, s)
	}
	f("a*", "a", true)
	f("a*", "ba", false)
	f("*", "", true)
	f("**", "x", true)
	f("*a", "ba", true)
	f("*a", "ab", false)
	f("a*b*c", "a/b/b/c", true)
	f("a*b*c", "acb", false)
	f("a*a", "a", false)
	f("a*a", "aa", true)
	f("a*bc*bcd", "abcd", false)
	f("a*bc*bcd", "abcbcd", true)
	f(`a\*`, "a*", true)
	f(`a\*`, "ab", false)
	f(`a\*b*`, "a*bc", true)
	f(`a\b`, `a\b`, true)
	f(`a\b*`, `a\bc`, true)
}
