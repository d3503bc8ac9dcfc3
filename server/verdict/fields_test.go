package verdict

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRetryAfter(t *testing.T) {
	f := func(wait int64, key uint64, want int64) {
		t.Helper()
		require.Equal(t, want, retryAfter(wait, key))
	}
	const most = ^uint64(0)
	f(0, 0, 1)
	f(1, 0, 1)
	f(1000, 0, 1)
	f(1001, 0, 2)
	f(1, most, 2)
	f(1001, most, 3) // 1001 + 1999 ms
	f(1002, most, 4)
	f(100_000, 0, 100)
	f(100_000, most, 110)
	f(100_000, most/2, 105)
	f(1<<62, most, 1<<62/1000)
	// The same caller gets the same time, whatever the order of its attributes.
	a := &Call{Policy: "p", Attributes: []Attribute{{Name: "a", Value: "1"}, {Name: "b", Value: "2"}}}
	b := &Call{Policy: "p", Attributes: []Attribute{{Name: "b", Value: "2"}, {Name: "a", Value: "1"}}, ID: "x", Peek: true}
	require.Equal(t, a.Key(), b.Key())
	b.Attributes[0].Value = "3"
	require.NotEqual(t, a.Key(), b.Key())
	// Callers spread over the room that there is.
	seen := map[int64]int{}
	for i := range 1000 {
		c := &Call{Policy: "p", Attributes: []Attribute{{Name: "user", Value: strings.Repeat("x", i)}}}
		seen[retryAfter(100_000, c.Key())]++
	}
	require.Greater(t, len(seen), 9)
	for second, n := range seen {
		require.Less(t, n, 200, second)
		require.True(t, second > 99 && second < 111, second)
	}
}
