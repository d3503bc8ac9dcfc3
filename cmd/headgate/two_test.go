package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// Tenants share a ceiling, which is in another group than most of them. A node dies meanwhile.
// When all is quiet, each counter has the calls that passed, and at most the calls whose
// outcome nobody knows as well.
func TestSumsOfTwoGroups(t *testing.T) {
	t.Parallel()
	const groups, ceiling, most = 12, 600, 1_000_000
	c := newCluster(t, 3, "--durability=sync", "--on-failure=closed")
	for _, n := range c.nodes {
		n.process = start(t, append(n.args, "--groups=12")...)
	}
	c.ledBy(t, 0, groups)
	var nodes []checker
	for _, n := range c.nodes {
		require.Eventually(t, func() bool { return n.status("/readyz") == 200 }, waitLimit, 10*time.Millisecond)
		nodes = append(nodes, newChecker(t, n))
	}
	nodes[0].edit(t, "RL.POLICY", "SET", "api", fmt.Sprintf(
		"home: tenant\nlimits: {t: {by: tenant, rate: %d/h, algorithm: fixed}, all: {rate: %d/h, algorithm: fixed}}", most, ceiling))

	var passed, denied, unknown atomic.Int64
	stop := make(chan struct{})
	var clients sync.WaitGroup
	for i := range 9 {
		clients.Go(func() {
			through := nodes[i%3]
			for {
				select {
				case <-stop:
					return
				default:
				}
				reply, err := through.Do(context.Background(), "RL.CHECK", "api", "tenant", homeTenant(rand.IntN(homeTenants))).Slice()
				var told redis.Error
				switch {
				case errors.As(err, &told) && told.Error()[0] != 'U': // not UNCERTAIN: the call was not executed
				case err != nil:
					unknown.Add(1)
					time.Sleep(time.Millisecond)
				case reply[0] == int64(1):
					passed.Add(1)
				default:
					denied.Add(1)
				}
			}
		})
	}
	require.Eventually(t, func() bool { return passed.Load() > ceiling/3 }, waitLimit, time.Millisecond)
	c.nodes[1].signal(t, syscall.SIGKILL)
	require.Error(t, c.nodes[1].wait(t))
	require.Eventually(t, func() bool { return denied.Load() > 100 }, 2*waitLimit, time.Millisecond)
	close(stop)
	clients.Wait()
	left := []checker{nodes[0], nodes[2]}
	used := func(i int, limit int) int64 {
		reply, err := left[i%2].list("RL.CHECK", "api", "tenant", homeTenant(i), "COST", 0, "PEEK")
		require.NoError(t, err)
		l := reply[11].([]any)[limit].([]any)
		return l[2].(int64) - l[3].(int64)
	}
	var sum, kept int64
	for i := range homeTenants {
		sum += used(i, 0)
	}
	all := used(0, 1)
	for _, n := range []*testNode{c.nodes[0], c.nodes[2]} { // of leaders that have handed over meanwhile
		_, text, _ := strings.Cut(n.get(t, "/metrics"), "\nheadgate_two_group_kept_total ")
		text, _, _ = strings.Cut(text, "\n")
		count, err := strconv.ParseInt(text, 10, 64)
		require.NoError(t, err)
		kept += count
	}
	t.Logf("%d passed, %d denied, %d unknown; %d kept; %d charged to tenants, %d to the ceiling", passed.Load(), denied.Load(), unknown.Load(), kept, sum, all)
	require.EqualValues(t, ceiling, all)
	require.GreaterOrEqual(t, sum, passed.Load())
	require.LessOrEqual(t, sum, passed.Load()+unknown.Load()+kept)
	require.GreaterOrEqual(t, all, passed.Load())
	require.LessOrEqual(t, all, passed.Load()+unknown.Load())
}
