package main

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
)

// failoverRow is what clients see when the leader is killed.
type failoverRow struct {
	Kills int `json:"kills"`
	// Gaps are, by client, the times from SIGKILL of the leader to the next
	// decision, while the nodes refuse to decide without a leader.
	Gaps []*clientGaps `json:"gaps"`
	// Policy is what plain clients of the surviving nodes see under the
	// default policy for the time without a leader.
	Policy policyRow `json:"default_policy"`
}

// clientGaps are one client's.
type clientGaps struct {
	Client string          `json:"client"`
	Gaps   []time.Duration `json:"gaps_ns"`
}

// policyRow counts the calls from the kill until a new leader served, on both
// surviving nodes.
type policyRow struct {
	Kills   int           `json:"kills"`
	Calls   int           `json:"calls"`
	Errors  int           `json:"errors"`
	Error   string        `json:"last_error,omitempty"`
	Slowest time.Duration `json:"slowest_ns"`
}

// quantile returns a quantile of some times, by nearest rank. It returns 0 without times.
func quantile(times []time.Duration, q float64) time.Duration {
	sorted := slices.Sorted(slices.Values(times))
	if len(sorted) == 0 {
		return 0
	}
	return sorted[max(0, int(math.Ceil(q*float64(len(sorted))))-1)]
}

// caller is a client library as a user would set it up.
type caller struct {
	name   string
	client redis.UniversalClient
}

// topologyInterval is how often the cluster client asks who leads. When its
// node is dead it has no other way to learn that, and its default is a minute.
const topologyInterval = 500 * time.Millisecond

// callers makes the clients, for a cluster whose node survivor will survive.
func callers(c *cluster, survivor *node) []caller {
	return []caller{
		{"go-redis ClusterClient, topology read every 500 ms", redis.NewClusterClient(&redis.ClusterOptions{Addrs: c.addrs(), ClusterStateReloadInterval: topologyInterval})},
		{"go-redis FailoverClient (sentinel)", redis.NewFailoverClient(&redis.FailoverOptions{MasterName: "headgate", SentinelAddrs: c.addrs()})},
		{"plain client on a surviving node", redis.NewClient(&redis.Options{Addr: survivor.addr})},
	}
}

func (c *caller) check(ctx context.Context) error {
	return c.client.Do(ctx, "CL.THROTTLE", "failover:"+c.name, 1_000_000, 1_000_000, 1).Err()
}

// callInterval is the pause of a client between two calls.
const callInterval = 5 * time.Millisecond

// patience is how long a client may go without a decision.
const patience = 20 * time.Second

// measureFailover kills leaders.
func (b *bench) measureFailover(ctx context.Context, dir string) (*failoverRow, error) {
	logging.Disable() // go-redis reports every refused connection
	row := &failoverRow{}
	if err := b.killForGaps(ctx, dir, row); err != nil {
		return row, fmt.Errorf("next decision: %w", err)
	}
	if err := b.killForPolicy(ctx, dir, &row.Policy); err != nil {
		return row, fmt.Errorf("default policy: %w", err)
	}
	return row, nil
}

func (b *bench) killForGaps(ctx context.Context, dir string, row *failoverRow) error {
	c, err := startCluster(dir, "failover", b.bin.headgate, "--on-failure", "closed")
	if err != nil {
		return err
	}
	defer c.stop()
	for row.Kills < b.kills {
		leader, err := c.settle()
		if err != nil {
			return err
		}
		list := callers(c, c.followers(leader)[0])
		if row.Gaps == nil {
			for _, one := range list {
				row.Gaps = append(row.Gaps, &clientGaps{Client: one.name})
			}
		}
		gaps, err := killAndCall(ctx, leader, list)
		if err != nil {
			return err
		}
		row.Kills++
		for i, gap := range gaps {
			row.Gaps[i].Gaps = append(row.Gaps[i].Gaps, gap)
		}
		b.logf("kill %d of %d: next decision after %s", row.Kills, b.kills, gaps)
		if err := c.start(leader); err != nil {
			return err
		}
	}
	return nil
}

// killAndCall kills the leader and returns how long each client was without a
// decision.
func killAndCall(ctx context.Context, leader *node, list []caller) ([]time.Duration, error) {
	for i := range list {
		defer list[i].client.Close()
		for range 20 { // until it knows the leader, and has connections
			if err := list[i].check(ctx); err != nil {
				return nil, fmt.Errorf("%s, before the kill: %w", list[i].name, err)
			}
		}
	}
	killed := time.Now()
	if err := leader.kill(); err != nil {
		return nil, err
	}
	gaps, failed := make([]time.Duration, len(list)), make([]error, len(list))
	var wg sync.WaitGroup
	for i := range list {
		wg.Go(func() {
			for gaps[i] == 0 {
				switch err := list[i].check(ctx); {
				case err == nil:
					gaps[i] = time.Since(killed)
				case time.Since(killed) > patience || ctx.Err() != nil:
					failed[i] = fmt.Errorf("%s: no decision within %s: %w", list[i].name, patience, err)
					return
				default:
					time.Sleep(callInterval)
				}
			}
		})
	}
	wg.Wait()
	for _, err := range failed {
		if err != nil {
			return nil, err
		}
	}
	return gaps, nil
}

// killForPolicy calls the surviving nodes over the whole gap.
func (b *bench) killForPolicy(ctx context.Context, dir string, row *policyRow) error {
	c, err := startCluster(dir, "policy", b.bin.headgate)
	if err != nil {
		return err
	}
	defer c.stop()
	for row.Kills < max(1, b.kills/2) {
		leader, err := c.settle()
		if err != nil {
			return err
		}
		if err := callSurvivors(ctx, c, leader, row); err != nil {
			return err
		}
		row.Kills++
		b.logf("kill %d under the default policy: %d calls so far, %d errors, slowest %s %s", row.Kills, row.Calls, row.Errors, row.Slowest, row.Error)
		if err := c.start(leader); err != nil {
			return err
		}
	}
	return nil
}

// callSurvivors kills the leader and calls the others, each over a connection
// that it had before, until one of them leads.
func callSurvivors(ctx context.Context, c *cluster, leader *node, row *policyRow) error {
	survivors := c.followers(leader)
	var list []caller
	for _, n := range survivors {
		one := caller{n.id, redis.NewClient(&redis.Options{Addr: n.addr, MaxRetries: -1})}
		defer one.client.Close()
		if err := one.check(ctx); err != nil {
			return fmt.Errorf("%s, before the kill: %w", n.id, err)
		}
		list = append(list, one)
	}
	if err := leader.kill(); err != nil {
		return err
	}
	var mu sync.Mutex // guards row
	var wg sync.WaitGroup
	stop := make(chan struct{})
	for i := range list {
		wg.Go(func() {
			every(stop, callInterval, func() {
				begin := time.Now()
				err := list[i].check(ctx)
				took := time.Since(begin)
				mu.Lock()
				defer mu.Unlock()
				row.Calls++
				row.Slowest = max(row.Slowest, took)
				if err != nil {
					row.Errors++
					row.Error = err.Error()
				}
			})
		})
	}
	err := awaitLeader(survivors)
	close(stop)
	wg.Wait()
	return err
}

// awaitLeader returns when one of the nodes leads.
func awaitLeader(list []*node) error {
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		for _, n := range list {
			if r, err := n.replication(); err == nil && r.leads {
				return nil
			}
		}
	}
	return fmt.Errorf("no new leader within %s", patience)
}
