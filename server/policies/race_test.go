package policies_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/internal/rig"
	"github.com/headgate-io/headgate/server"
)

// countsVersions is a policy whose limit shows its version.
func countsVersions(n int) string {
	return fmt.Sprintf(`{limits: {a: {algorithm: fixed, align: first, rate: %d/day}}}`, firstOfVersions+n)
}

const firstOfVersions = 1_000_000

// Connections check while a policy is changed: every reply agrees with one
// version, and what was consumed survives every change that keeps it.
func TestChecksAgreeWithOneVersion(t *testing.T) {
	t.Run("keep", func(t *testing.T) { checksAgree(t, "keep") })
	t.Run("reset", func(t *testing.T) { checksAgree(t, "reset") })
}

func checksAgree(t *testing.T, change string) {
	const connections, changes = 16, 300
	addr := rig.Serve(t, server.Config{}).Addr
	ops := rig.Dial(t, addr)
	set := func(n int) {
		ops.Send(rig.Encode("RL.POLICY", "SET", "p", "CHANGE", change, countsVersions(n)))
		require.EqualValues(t, n, ops.Reply())
	}
	set(1)
	var done atomic.Bool
	var checked atomic.Int64
	var wg sync.WaitGroup
	for range connections {
		c := rig.Dial(t, addr)
		wg.Go(func() {
			last := int64(0)
			for !done.Load() {
				c.Send(rig.Encode("RL.CHECK", "p"))
				reply := c.Reply()
				list, ok := reply.([]any)
				if !ok || list[0] != int64(1) || list[1] != firstOfVersions+list[9].(int64) || list[9].(int64) < last {
					t.Errorf("a reply of no version, or of an earlier one than %d: %v", last, reply)
					return
				}
				last = list[9].(int64)
				checked.Add(1)
			}
		})
	}
	for n := 2; n <= changes; n++ {
		set(n)
		// A client that has been replied a version finds it in force.
		ops.Send(rig.Encode("RL.CHECK", "p", "COST", "0"))
		require.EqualValues(t, n, ops.Reply().([]any)[9])
	}
	done.Store(true)
	wg.Wait()
	ops.Send(rig.Encode("RL.CHECK", "p", "COST", "0"))
	used := firstOfVersions + changes - ops.Reply().([]any)[2].(int64)
	if change == "keep" {
		require.Equal(t, checked.Load(), used, "each unit that was consumed")
		return
	}
	require.Less(t, used, checked.Load())
	set(changes + 1)
	ops.Send(rig.Encode("RL.CHECK", "p", "COST", "0"))
	require.EqualValues(t, firstOfVersions+changes+1, ops.Reply().([]any)[2], "all is void")
}

// Changes that meet follow each other: each has a version of its own.
func TestChangesRaceForAVersion(t *testing.T) {
	const connections, changes = 4, 20
	addr := rig.Serve(t, server.Config{}).Addr
	var wg sync.WaitGroup
	var mu sync.Mutex
	versions := make(map[int64]int)
	for i := range connections {
		c := rig.Dial(t, addr)
		wg.Go(func() {
			for n := range changes {
				c.Send(rig.Encode("RL.POLICY", "SET", "p", countsVersions(100*i+n)))
				version, ok := c.Reply().(int64)
				if !ok {
					continue // TRYAGAIN: others were quicker, again and again
				}
				mu.Lock()
				versions[version]++
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	for v := range int64(len(versions)) {
		require.Equal(t, 1, versions[v+1], "version %d", v+1)
	}
	c := rig.Dial(t, addr)
	c.Send(rig.Encode("RL.POLICY", "GET", "p"))
	require.EqualValues(t, len(versions), rig.Pair(t, c.Reply(), "version"))
}

// Versions that are gone hold no limits, however many there were.
func TestPoliciesGiveTheirLimitsBack(t *testing.T) {
	e := engine.New(engine.Config{})
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { e.Run(ctx) })
	defer wg.Wait()
	defer cancel()
	addr := rig.Serve(t, server.Config{Parts: server.One(e, nil)}).Addr
	c := rig.Dial(t, addr)
	const changes = 3000
	for n := range changes {
		args := []string{"RL.POLICY", "SET", "p", countsVersions(n)}
		if n%10 == 0 {
			args = []string{"RL.POLICY", "SET", "p", "DRYRUN", countsVersions(n)}
		}
		c.Send(rig.Encode(args...))
		require.NotNil(t, c.Reply())
		c.Send(rig.Encode("RL.CHECK", "p"))
		require.Equal(t, n > 0, len(plainList(c.Reply())) > 0)
	}
	require.Eventually(t, func() bool { return e.Stats().Limits < changes/2 }, time.Minute, 10*time.Millisecond, "%d limits", e.Stats().Limits)
}

// plainList is a reply that is a list, empty if it is none.
func plainList(reply any) []any {
	list, _ := reply.([]any)
	return list
}

// A client that looks at keys while resets make them void never waits long, and sees a reset
// after its reply.
func TestViewsWhilePoliciesAreReset(t *testing.T) {
	addr := rig.Serve(t, server.Config{}).Addr
	ops := rig.Dial(t, addr)
	ops.Send(rig.Encode("RL.POLICY", "SET", "p", "{limits: {a: {by: u, rate: 10/365d}}}"))
	require.EqualValues(t, 1, ops.Reply())
	var done atomic.Bool
	var wg sync.WaitGroup
	for i, lines := range [][]string{
		{"SCAN 0", "KEYS @p:*", "RANDOMKEY"}, {"EXISTS @p:a;u=0", "RL.EXPLAIN @p:a;u=1", "TYPE @p:a;u=1"},
		{"RL.OVERRIDE SET p SCALE 90%", "RL.OVERRIDE DEL p SCALE"}, {"MULTI", "RL.CHECK p u 1", "EXISTS @p:a;u=1 @p:a;u=2", "EXEC"},
	} {
		c := rig.Dial(t, addr)
		wg.Go(func() {
			for n := 0; !done.Load(); n++ {
				for _, line := range lines {
					if reply, failed := c.Words(line).(error); failed {
						t.Errorf("%d: %s: %v", i, line, reply)
						return
					}
				}
			}
		})
	}
	for n := range 200 {
		require.IsType(t, []any{}, ops.Words("RL.CHECK p u mine"))
		require.EqualValues(t, 1, ops.Words("EXISTS @p:a;u=mine"), n)
		require.IsType(t, int64(0), ops.Words("RL.POLICY RESET p"))
		require.EqualValues(t, 0, ops.Words("EXISTS @p:a;u=mine"), n)
	}
	done.Store(true)
	wg.Wait()
}
