package main

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The survivors of a killed leader have every call that WAIT has confirmed. Asynchronous
// calls of other nodes' clients are lost if the leader dies before their commit.
func TestWaitConfirmsOnlyWhatSurvives(t *testing.T) {
	t.Parallel()
	notUnderRace(t)
	for name, groups := range map[string]string{"one group": "--groups=1", "three groups": "--groups=3"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const rounds, clients = 4, 8
			c := startCluster(t, 3, "--on-failure=closed", groups)
			var confirmed [clients]int
			zeros := 0
			for round := range rounds {
				leader := c.leader(t)
				followers := c.followers(leader)
				var conns [clients]*client
				for i := range conns {
					conns[i] = dial(t, "tcp", followers[i%2].redis)
					// A confirmed call, so that nodes and streams know their terms.
					require.Eventually(t, func() bool { return conns[i].do("INCR", fmt.Sprint("warm", i))[0] == ':' }, waitLimit, 20*time.Millisecond)
					require.Eventually(t, func() bool { return conns[i].do("WAIT", "1", "5000") >= ":1" }, waitLimit, 20*time.Millisecond)
				}
				var answered [clients]bool
				for i, conn := range conns {
					answered[i] = conn.do("INCR", fmt.Sprint("k", i))[0] == ':'
				}
				leader.signal(t, syscall.SIGKILL)
				for i, conn := range conns {
					var have string
					require.Eventually(t, func() bool {
						have = conn.do("WAIT", "1", "5000")
						return have[0] == ':'
					}, waitLimit, 20*time.Millisecond)
					switch {
					case have == ":0":
						zeros++
					case answered[i]:
						confirmed[i]++
					}
				}
				require.Error(t, leader.wait(t))
				c.leader(t)
				survivor := dial(t, "tcp", followers[round%2].redis)
				for i, calls := range confirmed {
					var value int
					require.Eventually(t, func() bool {
						_, err := fmt.Sscanf(survivor.do("INCRBY", fmt.Sprint("k", i), "0"), ":%d", &value)
						return err == nil
					}, waitLimit, 20*time.Millisecond)
					require.GreaterOrEqual(t, value, calls, "key k%d, round %d", i, round)
				}
				leader.start(t)
				require.Eventually(t, func() bool { return leader.status("/readyz") == 200 }, waitLimit, 10*time.Millisecond)
			}
			t.Logf("confirmed %v of %d rounds, %d zeros", confirmed, rounds, zeros)
		})
	}
}
