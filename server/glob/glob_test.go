package glob

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func match(t require.TestingT, pattern, s string) bool {
	p, err := Compile(pattern)
	require.NoError(t, err)
	require.Equal(t, pattern, p.String())
	return p.Match(s)
}

func TestMatch(t *testing.T) {
	f := func(pattern, s string, want bool) {
		t.Helper()
		require.Equal(t, want, match(t, pattern, s), "%s %s", pattern, s)
		require.Equal(t, want, model(pattern, s), "%s %s", pattern, s)
	}
	f("", "", true)
	f("", "a", false)
	f("*", "", true)
	f("a*c", "abcbc", true)
	f("a*c", "abcb", false)
	f("a*a", "a", false)
	f("*ab*ab", "abab", true)
	f("*ab*ab", "aab", false)
	f("h?llo", "hello", true)
	f("h?llo", "hllo", false)
	f("h[ae]llo", "hallo", true)
	f("h[^e]llo", "hello", false)
	f("h[a-c]llo", "hbllo", true)
	f("h[c-a]llo", "hbllo", true)
	f("[]", "a", false)
	f("[^]", "a", true)
	f("[a", "a", true)
	f("[a-]]", "b", false)
	f(`\*`, "*", true)
	f(`\*`, "a", false)
	f(`a\`, `a\`, true)
	f(`[\]]`, "]", true)
	f("a**b*?", "axxbc", true)
	f("*?b*", "bb", true)
	f("*?b*", "b", false)
	long := strings.Repeat("?", 200) + "b"
	f("*"+long+"*", strings.Repeat("a", 300)+"b", true)
	f("*"+long+"*", strings.Repeat("a", 199)+"b", false)
}

// model is the definition.
func model(pattern, s string) bool {
	if pattern == "" {
		return s == ""
	}
	if pattern[0] == '*' {
		for i := range len(s) + 1 {
			if model(pattern[1:], s[i:]) {
				return true
			}
		}
		return false
	}
	if s == "" {
		return false
	}
	switch pattern[0] {
	case '?':
		return model(pattern[1:], s[1:])
	case '[':
		ok, rest := modelClass(pattern[1:], s[0])
		return ok && model(rest, s[1:])
	case '\\':
		if len(pattern) > 1 {
			pattern = pattern[1:]
		}
	}
	return pattern[0] == s[0] && model(pattern[1:], s[1:])
}

func modelClass(p string, c byte) (ok bool, rest string) {
	p, negated := strings.CutPrefix(p, "^")
	for p != "" && p[0] != ']' {
		low, high, n := p[0], p[0], 1
		if p[0] == '\\' && len(p) > 1 {
			low, high, n = p[1], p[1], 2
		} else if len(p) > 2 && p[1] == '-' {
			high, n = p[2], 3
		}
		ok = ok || min(low, high) <= c && c <= max(low, high)
		p = p[n:]
	}
	return ok != negated, strings.TrimPrefix(p, "]")
}

func FuzzMatch(f *testing.F) {
	for _, p := range []string{"", "*", "a*b?[c-d]*\\*", "[^a-", "*a?a*b", "[\\]]*", "**a**"} {
		f.Add(p, "abcd*aab")
	}
	f.Fuzz(func(t *testing.T, pattern, s string) {
		// The model takes exponential time.
		if len(pattern) > 64 || len(s) > 24 || strings.Count(pattern, "*") > 4 {
			return
		}
		require.Equal(t, model(pattern, s), match(t, pattern, s), "%q %q", pattern, s)
	})
}

func TestTooLong(t *testing.T) {
	_, err := Compile(strings.Repeat("a", MaxPattern))
	require.NoError(t, err)
	_, err = Compile(strings.Repeat("a", MaxPattern+1))
	require.ErrorIs(t, err, ErrTooLong)
}

// Nothing that fits a pattern and a key takes long: a hundred of the worst
// matches took minutes before.
func TestHostilePatterns(t *testing.T) {
	name := strings.Repeat("a", 64<<10)
	for _, pattern := range []string{
		"*" + strings.Repeat("a", 1000) + "b",
		"*" + strings.Repeat("a", 1000) + "b*",
		"*" + strings.Repeat("?", 1000) + "b*",
		strings.Repeat("a*", 500) + "b*c",
		strings.Repeat("?*", 500) + "b*",
		"*[" + strings.Repeat("a-z", 333) + "]b*",
		strings.Repeat("*[a-z]", 170),
		"*" + strings.Repeat("[a-z]", 200) + "b*",
	} {
		begin := time.Now()
		for range 100 {
			match(t, pattern, name)
		}
		require.Less(t, time.Since(begin), 3*time.Second, "%.20s", pattern)
	}
}

func BenchmarkMatch(b *testing.B) {
	for name, s := range map[string][2]string{
		"prefix": {"user:*", "user:1234567890"},
		"class":  {"user:[0-9]*:s", "user:1234567890:s"},
		"worst":  {"*" + strings.Repeat("?", 1000) + "b*", strings.Repeat("a", 64<<10)},
	} {
		b.Run(name, func(b *testing.B) {
			p, err := Compile(s[0])
			require.NoError(b, err)
			for b.Loop() {
				p.Match(s[1])
			}
		})
	}
}

// A character of a pattern costs the same whether it stands for one character or
// for nearly all of them: ? took 256 steps, and a call with a megabyte of them
// five seconds.
func TestCompileIsLinear(t *testing.T) {
	least := func(pattern string) time.Duration { // other processes make some runs longer
		least := time.Hour
		for range 200 {
			began := time.Now()
			_, err := Compile(pattern)
			require.NoError(t, err)
			least = min(least, time.Since(began))
		}
		return least
	}
	plain := least(strings.Repeat("a", 1000) + "b*")
	for _, pattern := range []string{strings.Repeat("?", 1000) + "b*", strings.Repeat("[^a]", 250) + "b*"} {
		took := least(pattern)
		t.Logf("%.4s: %.1f times as long as characters", pattern, float64(took)/float64(plain))
		require.Less(t, took, 10*plain, "%.10s", pattern)
	}
}
