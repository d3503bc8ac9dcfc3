package web_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/internal/hgtest"
	"github.com/headgate-io/headgate/internal/respclient"
)

func TestMain(m *testing.M) {
	code := m.Run()
	hgtest.Clean()
	os.Exit(code)
}

// Any node answers, in the order of a batch, and all count on the same counters. When
// the leader is killed the others go on answering, by the failure policy.
func TestHTTPInACluster(t *testing.T) {
	if testing.Short() {
		t.Skip("starts three processes and kills one")
	}
	t.Parallel()
	c, err := hgtest.StartCluster("--on-failure", "local")
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Stop() }) // one has been killed
	reply, err := respclient.Do(c.Nodes[0].Addr, 10*time.Second, "RL.POLICY", "SET", "p", "{limits: {user: {by: user, rate: 1_000_000/day}}}")
	require.NoError(t, err)
	require.Empty(t, reply.Error())
	client := http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 100}}
	post := func(s *hgtest.Server, path, body string) (int, map[string]any, error) {
		a, err := client.Post("http://"+s.HTTP+path, "application/json", strings.NewReader(body))
		if err != nil {
			return 0, nil, err
		}
		defer a.Body.Close()
		var out map[string]any
		err = json.NewDecoder(a.Body).Decode(&out)
		return a.StatusCode, out, err
	}
	remaining := func(v any) int { return int(v.(map[string]any)["remaining"].(float64)) }

	// A follower takes a change over a moment after it is committed.
	for _, s := range c.Nodes {
		require.Eventually(t, func() bool {
			status, _, err := post(s, "/v1/check", `{"policy":"p","attributes":{"user":"nobody"}}`)
			return err == nil && status == 200
		}, 10*time.Second, 20*time.Millisecond)
	}
	left := 1_000_000
	for _, s := range c.Nodes {
		// A node that stands still for a while has no leader, and says so.
		const call, n = `{"policy":"p","attributes":{"user":"eve"},"sync":true,"fail":"closed"}`, 230
		var results []any
		require.Eventually(t, func() bool {
			status, v, err := post(s, "/v1/check", call)
			if err != nil || status != 200 {
				return false
			}
			require.Equal(t, false, v["degraded"])
			require.InDelta(t, left, remaining(v), 2000) // what has flowed back, and tries
			_, v, err = post(s, "/v1/check:batch", `{"checks":[`+strings.TrimSuffix(strings.Repeat(call+",", n), ",")+`]}`)
			if err != nil {
				return false
			}
			results = v["results"].([]any)
			require.Len(t, results, n)
			return !slices.ContainsFunc(results, func(one any) bool { return one.(map[string]any)["status"].(float64) != 200 })
		}, 30*time.Second, 20*time.Millisecond)
		left = remaining(results[0].(map[string]any)["verdict"])
		for i, one := range results {
			require.InDelta(t, left-i, remaining(one.(map[string]any)["verdict"]), 20, "in order, on one counter")
		}
		left -= n - 1
	}

	// Load on the nodes that stay.
	leader, err := c.Leader()
	require.NoError(t, err)
	var mu sync.Mutex
	var waits []time.Duration
	var failures []string
	degraded := 0
	stop := make(chan struct{})
	var load sync.WaitGroup
	for i := range 8 {
		s := c.Nodes[i%3]
		if s == leader {
			continue
		}
		load.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				began := time.Now()
				status, v, err := post(s, "/v1/check", fmt.Sprintf(`{"policy":"p","attributes":{"user":"u%d-%d"},"respond":"status"}`, i, n%50))
				mu.Lock()
				waits = append(waits, time.Since(began))
				if err != nil || status != 200 {
					failures = append(failures, fmt.Sprint(status, v, err))
				} else if v["degraded"] == true {
					degraded++
				}
				mu.Unlock()
			}
		})
	}
	time.Sleep(300 * time.Millisecond)
	_, err = c.KillLeader()
	require.NoError(t, err)
	_, err = c.Leader()
	require.NoError(t, err)
	time.Sleep(300 * time.Millisecond)
	close(stop)
	load.Wait()
	require.Empty(t, failures)
	require.NotZero(t, degraded, "while there was no leader the failure policy answered")
	slices.Sort(waits)
	t.Logf("%d answers, %d degraded, p99 %v, longest %v", len(waits), degraded, waits[len(waits)*99/100], waits[len(waits)-1])
}
