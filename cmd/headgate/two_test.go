package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
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
	var kept int64
	sum, all := charged(t, left...)
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

// charged returns how many units of api are charged to all tenants together, and how many to
// the ceiling.
func charged(t *testing.T, through ...checker) (tenants, ceiling int64) {
	t.Helper()
	for i := range homeTenants {
		reply, err := through[i%len(through)].list("RL.CHECK", "api", "tenant", homeTenant(i), "COST", 0, "PEEK")
		require.NoError(t, err)
		used := func(limit int) int64 {
			l := reply[11].([]any)[limit].([]any)
			return l[2].(int64) - l[3].(int64)
		}
		tenants, ceiling = tenants+used(0), used(1)
	}
	return tenants, ceiling
}

// Clients repeat calls with IDs at other nodes, over HTTP and by the Redis protocol, until
// they are answered. A node dies meanwhile. Each group charges each call once, and each
// repeat gets the first answer.
func TestFrontsOfTwoGroups(t *testing.T) {
	notUnderRace(t)
	t.Parallel()
	const clients, calls = 6, 40
	c := newCluster(t, 3, "--groups=12", "--durability=sync", "--on-failure=closed")
	for _, n := range c.nodes {
		n.start(t)
	}
	var nodes []checker
	for _, n := range c.nodes {
		require.Eventually(t, func() bool { return n.status("/readyz") == 200 }, waitLimit, 10*time.Millisecond)
		nodes = append(nodes, newChecker(t, n))
	}
	nodes[0].edit(t, "RL.POLICY", "SET", "api", "home: tenant\nlimits: {t: {by: tenant, rate: 1000/d, algorithm: fixed}, all: {rate: 2000/d, algorithm: fixed}}")

	web := http.Client{Timeout: waitLimit}
	post := func(node int, path, key, body string, into any) error {
		q, err := http.NewRequest("POST", "http://"+c.nodes[node].http+path, strings.NewReader(body))
		if err != nil {
			return err
		}
		q.Header.Set("Content-Type", "application/json")
		if key != "" {
			q.Header.Set("Idempotency-Key", key)
		}
		a, err := web.Do(q)
		if err != nil {
			return err
		}
		defer a.Body.Close()
		text, err := io.ReadAll(a.Body)
		if err == nil && a.StatusCode != http.StatusOK {
			err = fmt.Errorf("%s", text)
		}
		if err != nil {
			return err
		}
		return json.Unmarshal(text, into)
	}
	type verdict struct {
		Allowed   bool
		Name      string
		Remaining int64
	}
	fronts := []func(node int, tenant, id string) (verdict, error){
		func(node int, tenant, id string) (v verdict, err error) {
			err = post(node, "/v1/check", id, fmt.Sprintf(`{"policy": "api", "attributes": {"tenant": %q}}`, tenant), &v)
			return v, err
		},
		func(node int, tenant, id string) (v verdict, err error) {
			err = post(node, "/v1/check", "", fmt.Sprintf(`{"policy": "api", "attributes": {"tenant": %q}, "id": %q}`, tenant, id), &v)
			return v, err
		},
		func(node int, tenant, id string) (verdict, error) {
			var batch struct {
				Results []struct {
					Status  int
					Verdict verdict
					Problem any
				}
			}
			err := post(node, "/v1/check:batch", "", fmt.Sprintf(`{"checks": [{"policy": "api", "attributes": {"tenant": %q}, "id": %q}]}`, tenant, id), &batch)
			if err != nil {
				return verdict{}, err
			}
			one := batch.Results[0]
			if one.Status != http.StatusOK {
				err = fmt.Errorf("%v", one.Problem)
			}
			return one.Verdict, err
		},
		func(node int, tenant, id string) (verdict, error) {
			reply, err := nodes[node].Do(context.Background(), "RL.CHECK", "api", "tenant", tenant, "ID", id).Slice()
			if err != nil {
				return verdict{}, err
			}
			return verdict{reply[0] == int64(1), reply[6].(string), reply[2].(int64)}, nil
		},
	}
	var answered, repeated atomic.Int64
	all, failed := errgroup.WithContext(t.Context())
	for client := range clients {
		all.Go(func() error {
			for call := range calls {
				tenant, id := homeTenant(rand.IntN(homeTenants)), fmt.Sprint(client, "-", call)
				var first *verdict
				end := time.Now().Add(2 * waitLimit)
				for try, answers := rand.IntN(12), 0; answers < 3; try++ {
					v, err := fronts[try%4](try%3, tenant, id)
					switch {
					case err != nil && time.Now().After(end):
						return err
					case err != nil:
						repeated.Add(1)
						time.Sleep(time.Millisecond)
						continue
					case first == nil:
						first = &v
					}
					if answers++; v != *first || !v.Allowed {
						return fmt.Errorf("%s %s was answered %+v, and first %+v", tenant, id, v, *first)
					}
				}
				answered.Add(1)
			}
			return nil
		})
	}
	require.Eventually(t, func() bool { return answered.Load() > clients*calls/4 || failed.Err() != nil }, 2*waitLimit, time.Millisecond)
	c.nodes[1].signal(t, syscall.SIGKILL)
	require.Error(t, c.nodes[1].wait(t))
	require.NoError(t, all.Wait())
	t.Logf("%d calls without an answer were repeated", repeated.Load())

	// Envoy's requests have no IDs, and no second group: they are denied, and charge nothing.
	for _, n := range []*testNode{c.nodes[0], c.nodes[2]} {
		a, err := rls.NewRateLimitServiceClient(dialGRPC(t, n.grpc)).ShouldRateLimit(t.Context(), &rls.RateLimitRequest{
			Domain: "api", Descriptors: []*ratelimit.RateLimitDescriptor{{Entries: []*ratelimit.RateLimitDescriptor_Entry{{Key: "tenant", Value: "t1"}}}},
		})
		require.NoError(t, err, "an error would let the request pass")
		require.Equal(t, rls.RateLimitResponse_OVER_LIMIT, a.OverallCode)
		require.Contains(t, string(a.RawBody), "policy 'api' has limits in two groups: use RL.CHECK")
	}
	tenants, ceiling := charged(t, nodes[0], nodes[2])
	require.EqualValues(t, clients*calls, tenants)
	require.EqualValues(t, clients*calls, ceiling)
}
