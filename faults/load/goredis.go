package load

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/headgate-io/headgate/faults/history"
)

// GoRedis are clients of the go-redis library, none of which retries a command.
type GoRedis struct {
	Cluster, Failover redis.UniversalClient
	Plain             []redis.UniversalClient // one for each node
}

// reload is how often the cluster client reads the topology: see docs/cluster-clients.md.
const reload = 500 * time.Millisecond

// poolSize keeps the sentinel client from giving up for a second. After so many refused connections in a row it tries
// once a second only, and until there is a new leader all are refused.
const poolSize = 1000

// NewGoRedis returns clients of the nodes with the given addresses, with timeout for one answer.
func NewGoRedis(addrs []string, timeout time.Duration) *GoRedis {
	redis.SetLogger(silence{}) // it tells of every connection that is refused
	g := &GoRedis{
		Cluster: redis.NewClusterClient(&redis.ClusterOptions{
			Addrs: addrs, Protocol: 2, MaxRetries: -1, MaxRedirects: -1, ClusterStateReloadInterval: reload,
			ReadTimeout: timeout, DialTimeout: dialTimeout, DialerRetries: 1,
		}),
		Failover: redis.NewFailoverClient(&redis.FailoverOptions{
			MasterName: "headgate", SentinelAddrs: addrs, Protocol: 2, MaxRetries: -1, PoolSize: poolSize,
			ReadTimeout: timeout, DialTimeout: dialTimeout, DialerRetries: 1,
		}),
	}
	for _, addr := range addrs {
		g.Plain = append(g.Plain, redis.NewClient(&redis.Options{
			Addr: addr, Protocol: 2, MaxRetries: -1, ReadTimeout: timeout, DialTimeout: dialTimeout, DialerRetries: 1,
		}))
	}
	return g
}

// silence is a logger.
type silence struct{}

func (silence) Printf(context.Context, string, ...any) {}

// Close closes all clients.
func (g *GoRedis) Close() error {
	err := errors.Join(g.Cluster.Close(), g.Failover.Close())
	for _, c := range g.Plain {
		err = errors.Join(err, c.Close())
	}
	return err
}

// Callers is a load in which each of a number of callers uses a client of a library for one call at a time. Calls that a
// caller cannot make when they are due, since it waits for an answer, are made as soon as it has that.
type Callers struct {
	cfg       Config
	cancel    context.CancelFunc
	wg        sync.WaitGroup
	recorders []*history.Recorder

	// mu guards codes.
	mu    sync.Mutex
	codes map[string]int
}

// StartCallers begins to offer the calls of cfg, whose Dial and Encode are not used. client returns the client of a
// caller, by the number of its connection. args returns the arguments of a call.
func StartCallers(cfg Config, client func(caller int) redis.UniversalClient, args func(*history.Call) []string) *Callers {
	ctx, cancel := context.WithCancel(context.Background())
	l := &Callers{cfg: cfg, cancel: cancel, codes: make(map[string]int)}
	for i := range cfg.Conns {
		plan := &conn{cfg: &l.cfg, id: i, node: cfg.Node(i), rnd: rand.New(rand.NewPCG(cfg.Seed, uint64(i)))}
		recorder := &history.Recorder{}
		l.recorders = append(l.recorders, recorder)
		l.wg.Go(func() { l.run(ctx, plan, client(i), args, recorder) })
	}
	return l
}

func (l *Callers) run(ctx context.Context, plan *conn, client redis.UniversalClient, args func(*history.Call) []string, recorder *history.Recorder) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for ; ; plan.planned++ {
		due := plan.due(plan.planned)
		timer.Reset(due - time.Duration(plan.now()))
		select {
		case <-timer.C:
		case <-ctx.Done():
			return
		}
		call := l.cfg.Next(plan.id, plan.rnd, due)
		call.Due, call.Node, call.Start = int64(due), uint8(plan.node), plan.now()
		var words []any
		for _, a := range args(&call) {
			words = append(words, a)
		}
		// Not ctx: a call that has begun is waited for.
		reply, err := client.Do(context.Background(), words...).Int64Slice()
		call.End = plan.now()
		if code := outcome(&call, reply, err); code != "" {
			l.mu.Lock()
			l.codes[code]++
			l.mu.Unlock()
		}
		recorder.Add(call)
	}
}

// outcome fills in what a client's answer says of its call. It returns the code of an error reply, or "".
func outcome(c *history.Call, reply []int64, err error) string {
	var answered redis.Error
	var failed *net.OpError
	switch {
	case err == nil && len(reply) >= 3:
		c.Outcome = history.Denied
		if reply[0] > 0 {
			c.Outcome = history.Admitted
		}
		c.Remaining = int32(min(reply[2], 1<<31-1))
	case errors.As(err, &failed) && failed.Op == "dial":
		c.Outcome = history.Refused // nothing was sent
	case errors.As(err, &answered):
		code, _, _ := strings.Cut(answered.Error(), " ")
		c.Outcome = history.Unknown
		if refusals[code] {
			c.Outcome = history.Refused
		}
		return code
	case err == nil:
		return fmt.Sprintf("%d elements", len(reply))
	}
	return ""
}

// Stop is as that of a Load.
func (l *Callers) Stop(h *history.History) map[string]int {
	l.cancel()
	l.wg.Wait()
	h.Merge(l.recorders...)
	return l.codes
}
