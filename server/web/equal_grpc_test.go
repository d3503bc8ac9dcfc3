package web_test

import (
	"context"
	"fmt"
	"net"
	"testing"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/headgate-io/headgate/resp"
	"github.com/headgate-io/headgate/server/envoy"
)

// gateway asks a server as Envoy does.
type gateway struct {
	*rig
	rls.RateLimitServiceClient
}

func newGateway(t *testing.T, r *rig) *gateway {
	front := envoy.New(envoy.Config{Decider: r.caller})
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	go front.Serve(ln)
	c, err := grpc.NewClient("passthrough:"+ln.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() {
		c.Close()
		require.NoError(t, front.Shutdown(context.Background()))
	})
	return &gateway{r, rls.NewRateLimitServiceClient(c)}
}

// check makes a random call, and demands the verdict that another server has replied
// over the Redis protocol.
func (g *gateway) check(c *equalCall, want *resp.Reply) {
	if len(c.attributes) == 0 || c.peek { // Envoy cannot ask that
		g.run(c.args()...)
		return
	}
	d := new(ratelimit.RateLimitDescriptor)
	for key, value := range c.attributes {
		d.Entries = append(d.Entries, &ratelimit.RateLimitDescriptor_Entry{Key: key, Value: fmt.Sprint(value)})
	}
	if c.cost >= 0 {
		d.HitsAddend = wrapperspb.UInt64(uint64(c.cost))
	}
	a, err := g.ShouldRateLimit(context.Background(), &rls.RateLimitRequest{Domain: c.policy, Descriptors: []*ratelimit.RateLimitDescriptor{d}})
	switch text := want.Error(); {
	case c.policy == "none":
		require.Equal(g.t, codes.NotFound, status.Code(err), text)
		return
	case text != "":
		require.NoError(g.t, err)
		require.Equal(g.t, rls.RateLimitResponse_OVER_LIMIT, a.OverallCode)
		require.NotEmpty(g.t, a.RawBody)
		return
	}
	require.NoError(g.t, err)
	code := rls.RateLimitResponse_OK
	if want.Field("allowed").Int == 0 {
		code = rls.RateLimitResponse_OVER_LIMIT
	}
	require.Equal(g.t, code, a.OverallCode)
	require.Equal(g.t, code, a.Statuses[0].Code)
	// Of several limits that deny, Envoy is told another one, and of none how much is
	// left.
	if limit := a.Statuses[0].CurrentLimit; limit != nil && limit.Name == want.Field("name").Str {
		require.Equal(g.t, want.Field("limit").Int, int64(limit.RequestsPerUnit))
		left := want.Field("remaining").Int
		if code == rls.RateLimitResponse_OVER_LIMIT {
			left = 0
		}
		require.Equal(g.t, left, int64(a.Statuses[0].LimitRemaining))
	}
}
