package main

import (
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/resp"
)

// The leader is killed while callers take slots and repeat calls without an answer. No
// slot is lost or handed out twice, and callers can settle on the next leader.
func TestSlotsOutlastTheLeader(t *testing.T) {
	notUnderRace(t)
	t.Parallel()
	const slots, callers, killAt = 20, 32, 8
	c := startCluster(t, 3, "--on-failure=closed", "--raft-profile=slow")
	leader := c.leader(t)
	const text = `{durability: sync, on_failure: closed, limits: {run: {by: t, concurrent: 20, ttl: 1h}}}`
	require.Eventually(t, func() bool { // until each node can read it
		return leader.call(t, "RL.POLICY", "SET", "export", text).Type == ':'
	}, waitLimit, 20*time.Millisecond)
	nodes := c.followers(leader) // which outlive it
	check := func(i int, args ...string) (r resp.Reply) {
		require.Eventually(t, func() bool {
			r = nodes[i%len(nodes)].call(t, append([]string{"RL.CHECK", "export", "t", "A"}, args...)...)
			return r.Type == '*'
		}, waitLimit, 20*time.Millisecond, "%+v", r)
		return r
	}
	var granted [callers]bool
	var taken atomic.Int64
	killed := make(chan struct{})
	go func() {
		defer close(killed)
		for taken.Load() < killAt {
			time.Sleep(time.Millisecond)
		}
		leader.signal(t, syscall.SIGKILL)
	}()
	var calls sync.WaitGroup
	const workers = 4
	for w := range workers {
		calls.Go(func() { // some calls are under way when it dies
			for i := w; i < callers; i += workers {
				if granted[i] = check(i, "ID", fmt.Sprint("job-", i)).Elems[0].Int == 1; granted[i] {
					taken.Add(1)
				}
			}
		})
	}
	calls.Wait()
	<-killed
	require.Error(t, leader.wait(t))

	require.EqualValues(t, slots, taken.Load(), "each caller has asked until it was answered")
	require.Zero(t, check(0, "COST", "0").Elems[2].Int)
	for i := range callers {
		r := check(i, "ID", fmt.Sprint("job-", i))
		require.Equal(t, granted[i], r.Elems[0].Int == 1, "job %d: %+v", i, r)
	}
	free := int64(0)
	for i := range callers {
		if !granted[i] {
			continue
		}
		var r resp.Reply
		require.Eventually(t, func() bool {
			r = nodes[i%len(nodes)].call(t, "RL.COMMIT", fmt.Sprint("export;job-", i))
			return r.Type == '*'
		}, waitLimit, 20*time.Millisecond)
		require.Equal(t, "committed", r.Elems[7].Str)
		free++
		require.Equal(t, free, r.Elems[2].Int)
	}
	require.EqualValues(t, slots, check(0, "COST", "0").Elems[2].Int)
}
