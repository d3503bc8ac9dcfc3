package envoy_test

import (
	"fmt"
	"testing"
	"time"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/headgate-io/headgate/internal/hgtest"
	"github.com/headgate-io/headgate/internal/respclient"
)

// While nothing can be decided, health is red. With a policy that lets nodes decide
// without a leader, the others go on answering when the leader is killed.
func TestGRPCInACluster(t *testing.T) {
	if testing.Short() {
		t.Skip("starts three processes and kills some")
	}
	t.Parallel()
	c, err := hgtest.StartCluster("--on-failure", "closed")
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Stop() }) // one has been killed
	clients := map[*hgtest.Server]rls.RateLimitServiceClient{}
	for _, s := range c.Nodes {
		clients[s] = rls.NewRateLimitServiceClient(dial(t, s.GRPC))
	}
	health := func(s *hgtest.Server, want grpc_health_v1.HealthCheckResponse_ServingStatus) {
		t.Helper()
		client := grpc_health_v1.NewHealthClient(dial(t, s.GRPC))
		require.Eventually(t, func() bool {
			a, err := client.Check(patient(t), &grpc_health_v1.HealthCheckRequest{Service: name})
			return err == nil && a.Status == want
		}, 20*time.Second, 20*time.Millisecond)
	}
	for _, s := range c.Nodes {
		health(s, grpc_health_v1.HealthCheckResponse_SERVING)
	}
	c.Nodes[0].Kill()
	c.Nodes[1].Kill()
	health(c.Nodes[2], grpc_health_v1.HealthCheckResponse_NOT_SERVING)
	require.NoError(t, c.Nodes[0].Restart())
	require.NoError(t, c.Nodes[1].Restart())
	leader, err := c.Leader()
	require.NoError(t, err)
	health(c.Nodes[2], grpc_health_v1.HealthCheckResponse_SERVING)

	reply, err := respclient.Do(leader.Addr, 10*time.Second, "RL.POLICY", "SET", "edge", "{on_failure: local, descriptors: [{key: user, rate_limit: {unit: day, requests_per_unit: 1_000_000}}]}")
	require.NoError(t, err)
	require.Empty(t, reply.Error())
	for _, s := range c.Nodes { // a follower takes a change over a moment later
		require.Eventually(t, func() bool {
			_, err := clients[s].ShouldRateLimit(patient(t), request("edge", []string{"user", "nobody"}))
			return err == nil
		}, 10*time.Second, 20*time.Millisecond)
	}
	for i, s := range c.Nodes { // on one counter
		a, err := clients[s].ShouldRateLimit(patient(t), request("edge", []string{"user", "eve"}, []string{"user", "adam"}))
		require.NoError(t, err)
		for _, one := range a.Statuses {
			require.Equal(t, uint32(999_999-i), one.LimitRemaining)
		}
	}

	b, err := c.KillBeside(8, func(s *hgtest.Server, client, n int) (degraded bool, err error) {
		a, err := clients[s].ShouldRateLimit(patient(t), request("edge", []string{"user", fmt.Sprintf("u%d-%d", client, n%50)}, []string{"user", "all"}))
		return a.GetDynamicMetadata().GetFields()["degraded"].GetBoolValue(), err
	})
	require.NoError(t, err)
	require.Empty(t, b.Failures)
	require.NotZero(t, b.Degraded, "while there was no leader the failure policy answered")
	t.Logf("%+v", *b)
}
