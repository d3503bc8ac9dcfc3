package scenario

import (
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/headgate-io/headgate/faults/cluster"
	"github.com/headgate-io/headgate/faults/history"
	"github.com/headgate-io/headgate/faults/load"
	"github.com/headgate-io/headgate/faults/oracle"
)

// The clients of a run with go-redis, as the nodes of their calls: those of a plain client have its node's number.
const (
	clusterClient  = 3
	failoverClient = 4
)

// goRedisKills kills leaders under the load of real clients: a cluster client, a sentinel client, and one plain client for
// each node. The cluster client finds the nodes' cluster doors, where a node that does not lead answers MOVED.
func goRedisKills(r *Run) error {
	r.codesToo = []string{"MOVED", "READONLY"}
	kinds := []int{0, 1, 2, clusterClient, failoverClient}
	if err := r.start(cluster.Config{}); err != nil {
		return err
	}
	var addrs []string
	for _, n := range r.cluster.Nodes {
		addrs = append(addrs, n.Addr)
	}
	clients := load.NewGoRedis(addrs, patience)
	defer clients.Close()
	keys := limits(r.Rate)
	const callers = 30
	r.note("%.0f calls/s by %d callers", r.Rate, callers)
	l := load.StartCallers(load.Config{
		Rate: r.Rate, Conns: callers, Seed: r.Seed, Epoch: r.epoch, First: time.Since(r.epoch),
		Node: func(caller int) int { return kinds[caller%len(kinds)] }, Next: chargeAndPeek(keys),
	}, func(caller int) redis.UniversalClient {
		switch n := kinds[caller%len(kinds)]; n {
		case clusterClient:
			return clients.Cluster
		case failoverClient:
			return clients.Failover
		default:
			return clients.Plain[n]
		}
	}, func(c *history.Call) []string { return load.Arguments(c, keys.Key(c.Key), history.Key{}) })
	var kills []death
	err := r.rounds(func() error {
		n, err := r.leader()
		if err != nil {
			return err
		}
		k := death{node: uint8(n.Index), from: r.now()}
		err = r.killAndRestart(n)
		k.to = r.now()
		kills = append(kills, k)
		return err
	})
	err = r.finish(l, keys, err)
	r.failovers("cluster client", kills, func(_ death, node uint8) bool { return node == clusterClient })
	r.failovers("sentinel client", kills, func(_ death, node uint8) bool { return node == failoverClient })
	r.failovers("plain clients on surviving nodes", kills, func(k death, node uint8) bool { return node < clusterClient && node != k.node })
	return err
}

// death is the time from a leader's end until it follows again.
type death struct {
	node     uint8
	from, to int64
}

// failovers checks how long it took, after each death, until a call of the clients that counts selects, sent after it,
// was decided.
func (r *Run) failovers(which string, kills []death, counts func(k death, node uint8) bool) {
	var gaps []time.Duration
	for _, k := range kills {
		first := int64(history.Forever)
		for i := range r.history.Calls {
			c := &r.history.Calls[i]
			if c.Start >= k.from && c.End < first && counts(k, c.Node) && c.Decided() {
				first = c.End
			}
		}
		gaps = append(gaps, time.Duration(first-k.from))
	}
	if len(gaps) == 0 {
		r.expect(false, "failover", "%s: no leader was killed", which)
		return
	}
	r.expect(float64(oracle.Quantile(gaps, .5)) < 2e9*r.slack() && float64(oracle.Quantile(gaps, .9)) < 3e9*r.slack(), "failover", "%s: the next decision after %s", which, quantiles(gaps))
}
