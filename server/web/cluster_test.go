package web_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
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

	// A change by any node has an author, who is known on all.
	get := func(s *hgtest.Server, path string) map[string]any {
		a, err := client.Get("http://" + s.HTTP + path)
		require.NoError(t, err)
		defer a.Body.Close()
		out := map[string]any{}
		require.NoError(t, json.NewDecoder(a.Body).Decode(&out))
		return out
	}
	for i, s := range c.Nodes {
		name := fmt.Sprintf("by%d", i)
		require.Eventually(t, func() bool {
			q, err := http.NewRequest("PUT", "http://"+s.HTTP+"/v1/policies/"+name, strings.NewReader("{limits: {all: {rate: 1/h}}}"))
			require.NoError(t, err)
			q.Header.Set("Content-Type", "application/yaml")
			a, err := client.Do(q)
			if err == nil {
				a.Body.Close()
			}
			return err == nil && a.StatusCode == 200
		}, 20*time.Second, 20*time.Millisecond)
		for _, other := range c.Nodes {
			require.Eventually(t, func() bool { return get(other, "/v1/policies/"+name)["version"] == 1.0 }, 10*time.Second, 20*time.Millisecond)
			require.Regexp(t, `^default http at 127\.0\.0\.1:\d+$`, get(other, "/v1/policies/"+name)["author"])
		}
	}

	// Each node knows all nodes, and the leader.
	leader, err := c.Leader()
	require.NoError(t, err)
	leads := get(leader, "/v1/cluster")["node"]
	for _, s := range c.Nodes {
		require.Eventually(t, func() bool { return get(s, "/v1/cluster")["leader"] == leads }, 10*time.Second, 20*time.Millisecond)
		seen := get(s, "/v1/cluster")
		members := seen["members"].([]any)
		require.Len(t, members, 3)
		for _, m := range members {
			m := m.(map[string]any)
			require.Equal(t, m["id"] == leads, m["leader"], "%v", m)
			require.Equal(t, true, m["voter"], "%v", m)
			require.Equal(t, true, m["up"], "%v", m)
			if m["leader"] == true {
				require.Equal(t, leader.Addr, m["clients"])
			}
		}
		require.Positive(t, seen["term"])
		require.Positive(t, seen["commit_index"])
		require.Empty(t, seen["settings_differ"])
	}

	b, err := c.KillBeside(8, func(s *hgtest.Server, client, n int) (degraded bool, err error) {
		status, v, err := post(s, "/v1/check", fmt.Sprintf(`{"policy":"p","attributes":{"user":"u%d-%d"},"respond":"status"}`, client, n%50))
		if err == nil && status != 200 {
			err = fmt.Errorf("%d: %v", status, v)
		}
		return v["degraded"] == true, err
	})
	require.NoError(t, err)
	require.Empty(t, b.Failures)
	require.NotZero(t, b.Degraded, "while there was no leader the failure policy answered")
	t.Logf("%+v", *b)
	next, err := c.Leader()
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		for _, m := range get(next, "/v1/cluster")["members"].([]any) {
			if m := m.(map[string]any); m["id"] == leads {
				return m["up"] == false && m["leader"] == false
			}
		}
		return false
	}, 20*time.Second, 50*time.Millisecond, "the one that was killed is not up")
}
