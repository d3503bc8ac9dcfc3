package compare

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// ZSCAN's large integers are the same with an exponent, and nothing else is.
func TestLargeScoresOfZScan(t *testing.T) {
	bulk := func(members ...string) (reply []byte) {
		for _, m := range members {
			reply = fmt.Appendf(reply, "$%d\r\n%s\r\n", len(m), m)
		}
		return reply
	}
	zscan := []string{"ZSCAN", "z", "0"}
	require.True(t, same(zscan, bulk("m", "1e+17", "n", "-4.6116860184273879e+18"), bulk("m", "100000000000000000", "n", "-4611686018427387904"), false))
	require.False(t, same(zscan, bulk("m", "1e+17"), bulk("m", "100000000000000016"), false))
	require.False(t, same(zscan, bulk("m", "1e+17"), bulk("n", "100000000000000000"), false))
	require.False(t, same(zscan, bulk("m", "1e+16"), bulk("m", "10000000000000000"), false))
	require.False(t, same([]string{"ZSCORE", "z", "m"}, bulk("1e+17"), bulk("100000000000000000"), false))
}
