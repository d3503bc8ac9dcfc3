package native_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Only times to live beyond the last one of ours may differ between our servers
// and redis-server.
func TestNear(t *testing.T) {
	r := &oracle{now: time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)}
	const last = 7443056836855 // ms from then to 2262-04-11 23:47:16.854775806
	reply := func(n int64) string { return fmt.Sprintf("+string\r\n :%d\r\n $1\r\n7\r\n", n) }
	for _, theirs := range []int64{last + 1, 8e12, 1 << 53, 2e16, 9e16, 1e17} {
		require.Equal(t, reply(theirs), r.near(reply(theirs), reply(last)))
	}
	for _, unlike := range [][2]int64{
		{last - 1, last}, {2e16, last - 1}, {2e16, last + 1}, {2e16, 1e16}, {8e12, 9e12}, {1<<53 + 1, 1 << 53}, {-1, last}, {last, -1}, {-2e16, last},
	} {
		require.Equal(t, reply(unlike[1]), r.near(reply(unlike[0]), reply(unlike[1])))
	}
	// The second of two numbers is compared with the second.
	require.Equal(t, ":-2\r\n:20000000000000000\r\n", r.near(":-2\r\n:20000000000000000\r\n", ":-2\r\n:7443056836855\r\n"))
	require.Equal(t, ":7443056836855\r\n:1\r\n", r.near(":1\r\n:20000000000000000\r\n", ":7443056836855\r\n:1\r\n"))
	r.now = r.now.Add(time.Millisecond)
	require.Equal(t, reply(2e16), r.near(reply(2e16), reply(last-1)))
	require.NotEqual(t, reply(2e16), r.near(reply(2e16), reply(last)))
}
