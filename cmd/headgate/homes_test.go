package main

import (
	"context"
	"fmt"
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

// homeTenants are enough tenants for each of 12 groups to have some.
const homeTenants = 36

func homeTenant(i int) string { return fmt.Sprintf("t%d", i) }

// checker asks a node, and repeats a call whose answer is not known. Its calls have IDs, so
// they count once.
type checker struct{ *redis.Client }

func newChecker(t *testing.T, n *testNode) checker {
	c := checker{redis.NewClient(&redis.Options{Addr: n.redis, Protocol: 2, MaxRetries: -1, ReadTimeout: 20 * time.Second})}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// list runs a command whose reply is a list.
func (c checker) list(args ...any) ([]any, error) {
	for end := time.Now().Add(waitLimit); ; time.Sleep(20 * time.Millisecond) {
		reply, err := c.Do(context.Background(), args...).Slice()
		if err == nil || time.Now().After(end) || !undecided(err) {
			return reply, err
		}
	}
}

// edit changes policies.
func (c checker) edit(t *testing.T, args ...any) (reply any) {
	t.Helper()
	require.Eventually(t, func() bool {
		var err error
		reply, err = c.Do(context.Background(), args...).Result()
		if err != nil && !undecided(err) {
			t.Error(err)
		}
		return err == nil
	}, waitLimit, 20*time.Millisecond)
	return reply
}

// undecided reports whether a busy machine, or a cluster without a leader, explains an error.
func undecided(err error) bool {
	word, _, _ := strings.Cut(err.Error(), " ")
	return word == "TRYAGAIN" || word == "CLUSTERDOWN" || word == "UNCERTAIN"
}

// each calls fn for each tenant, some at a time.
func eachTenant(fn func(i int) error) error {
	errs := make([]error, homeTenants)
	var all sync.WaitGroup
	for part := range 6 {
		all.Go(func() {
			for i := part; i < homeTenants; i += 6 {
				if errs[i] = fn(i); errs[i] != nil {
					return
				}
			}
		})
	}
	all.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// A policy with a home counts each tenant in the group of the tenant's slot. Sums are exact,
// through every node, through the death of a leader and through edits.
func TestHomesOfTwelveGroups(t *testing.T) {
	notUnderRace(t)
	t.Parallel()
	const groups, rate = 12, 5
	c := newCluster(t, 3, "--durability=sync", "--on-failure=closed")
	for _, n := range c.nodes {
		n.process = start(t, append(n.args, "--groups=12")...)
	}
	c.ledBy(t, 0, groups)
	ctx := context.Background()
	var nodes []checker
	for _, n := range c.nodes {
		require.Eventually(t, func() bool { return n.status("/readyz") == 200 }, waitLimit, 10*time.Millisecond)
		nodes = append(nodes, newChecker(t, n))
	}
	policy := func(user int) string {
		return fmt.Sprintf("limits: {all: {by: tenant, rate: %d/h, algorithm: fixed}, user: {by: [tenant, user], rate: %d/h}}", rate, user)
	}
	nodes[1].edit(t, "RL.POLICY", "SET", "api", policy(1000))

	// Exact sums: one call in each tenant is too much, whichever nodes are asked.
	var allowed, round atomic.Int64
	ask := func(through ...checker) error {
		id := round.Add(1)
		return eachTenant(func(i int) error {
			for call := range rate + 1 {
				reply, err := through[(i+call)%len(through)].list("RL.CHECK", "api", "user", "bob", "tenant", homeTenant(i), "ID", fmt.Sprint(id, "-", i, "-", call))
				if err != nil {
					return err
				}
				allowed.Add(reply[0].(int64))
			}
			return nil
		})
	}
	require.NoError(t, ask(nodes...))
	require.EqualValues(t, homeTenants*rate, allowed.Load())

	// The counters of each tenant are in the group of its slot.
	var led map[string]int
	require.Eventually(t, func() bool { // leaders may move while they are counted
		led = map[string]int{}
		leaders := c.groupsOfNode(t, 0)
		for i := range homeTenants {
			slot, err := nodes[0].ClusterKeySlot(ctx, homeTenant(i)).Result()
			require.NoError(t, err)
			led[leaders[((int(slot)+1)*groups-1)/16384].LeaderID] += 2
		}
		for _, n := range c.nodes {
			door := redis.NewClient(&redis.Options{Addr: n.cluster, Protocol: 2})
			size, err := door.DBSize(ctx).Result()
			require.NoError(t, door.Close())
			if err != nil || int(size) != led[n.id] {
				return false
			}
		}
		return len(led) > 1
	}, 2*waitLimit, 200*time.Millisecond)

	// A hold is made, settled and explained at three nodes.
	require.NoError(t, eachTenant(func(i int) error {
		hold, err := nodes[i%3].list("RL.RESERVE", "api", "user", "eve", "tenant", "h"+strconv.Itoa(i), "COST", 4, "ID", "hold")
		if err != nil {
			return err
		}
		reply, err := nodes[(i+1)%3].list("RL.COMMIT", hold[8], "COST", 3)
		if err == nil && reply[7] != "committed" {
			err = fmt.Errorf("%v", reply)
		}
		if err == nil {
			reply, err = nodes[(i+2)%3].list("RL.CHECK", "api", "user", "eve", "tenant", "h"+strconv.Itoa(i), "COST", 0, "PEEK")
		}
		if err == nil && reply[2] != int64(rate-3) {
			err = fmt.Errorf("%v after the commit", reply)
		}
		return err
	}))

	// A dead leader's groups get others, which have all that was counted.
	dead := c.nodes[1]
	dead.signal(t, syscall.SIGKILL)
	require.Error(t, dead.wait(t))
	left := []checker{nodes[0], nodes[2]}
	allowed.Store(0)
	require.NoError(t, ask(left...))
	require.Zero(t, allowed.Load(), "beyond the limit after a leader's death")

	// A client that was told about an edit is decided by it, in every group and through every node.
	stop, edits := make(chan struct{}), sync.WaitGroup{}
	var told atomic.Int64
	var older atomic.Pointer[string]
	for part := range 4 {
		edits.Go(func() {
			for i := part; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				least := told.Load()
				reply, err := left[i%2].list("RL.CHECK", "api", "user", "bob", "tenant", homeTenant(i%homeTenants), "PEEK")
				if err != nil || reply[9].(int64) < least {
					text := fmt.Sprintf("version %d was told, got %v %v", least, reply, err)
					older.Store(&text)
				}
			}
		})
	}
	for edit := range 8 {
		told.Store(left[edit%2].edit(t, "RL.POLICY", "SET", "api", policy(900-edit)).(int64))
	}
	close(stop)
	edits.Wait()
	if text := older.Load(); text != nil {
		t.Fatal(*text)
	}
	allowed.Store(0)
	require.NoError(t, ask(left...))
	require.Zero(t, allowed.Load(), "the edits changed another limit")

	// A reset of one tenant and of all, and a home that moves: the counters of all groups
	// begin again.
	left[0].edit(t, "RL.POLICY", "RESET", "api", "tenant", homeTenant(7), "user", "bob")
	require.NoError(t, ask(left...))
	require.EqualValues(t, rate, allowed.Load())
	for _, edit := range [][]any{{"RL.POLICY", "RESET", "api"}, {"RL.POLICY", "SET", "api", "home: []\n" + policy(1000)}, {"RL.POLICY", "SET", "api", policy(1000)}} {
		left[1].edit(t, edit...)
		allowed.Store(0)
		require.NoError(t, ask(left...))
		require.EqualValues(t, homeTenants*rate, allowed.Load(), "%v", edit)
	}

	// So do overrides.
	left[1].edit(t, "RL.OVERRIDE", "SET", "api", "LIMIT", "all", "RATE", "7/h", "tenant", homeTenant(3))
	allowed.Store(0)
	require.NoError(t, ask(left...))
	require.EqualValues(t, 2, allowed.Load())
}
