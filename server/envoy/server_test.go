package envoy_test

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/server"
	"github.com/headgate-io/headgate/server/access"
	"github.com/headgate-io/headgate/server/decisions"
	"github.com/headgate-io/headgate/server/envoy"
	"github.com/headgate-io/headgate/server/fronts"
)

const name = "envoy.service.ratelimit.v3.RateLimitService"

func TestHealth(t *testing.T) {
	var unfit atomic.Bool
	r := newRig(t, server.Config{}, envoy.Config{Fit: func() error {
		if unfit.Load() {
			return errors.New("no leader")
		}
		return nil
	}})
	client := grpc_health_v1.NewHealthClient(dial(t, r.addr))
	is := func(service string, want grpc_health_v1.HealthCheckResponse_ServingStatus) {
		t.Helper()
		a, err := client.Check(patient(t), &grpc_health_v1.HealthCheckRequest{Service: service})
		require.NoError(t, err)
		require.Equal(t, want, a.Status, "at once")
	}
	both := func(want grpc_health_v1.HealthCheckResponse_ServingStatus) {
		t.Helper()
		is("", want)
		is(name, want)
	}
	both(grpc_health_v1.HealthCheckResponse_SERVING)
	unfit.Store(true)
	both(grpc_health_v1.HealthCheckResponse_NOT_SERVING)
	unfit.Store(false)
	both(grpc_health_v1.HealthCheckResponse_SERVING)
	_, err := client.Check(patient(t), &grpc_health_v1.HealthCheckRequest{Service: "other"})
	require.Equal(t, codes.NotFound, status.Code(err))

	// A watcher learns of the end, and does not delay it.
	watch, err := client.Watch(patient(t), &grpc_health_v1.HealthCheckRequest{Service: name})
	require.NoError(t, err)
	a, err := watch.Recv()
	require.NoError(t, err)
	require.Equal(t, grpc_health_v1.HealthCheckResponse_SERVING, a.Status)
	for _, red := range []bool{true, false} {
		want := grpc_health_v1.HealthCheckResponse_SERVING
		if red {
			want = grpc_health_v1.HealthCheckResponse_NOT_SERVING
		}
		unfit.Store(red)
		a, err := watch.Recv()
		require.NoError(t, err)
		require.Equal(t, want, a.Status)
	}
	other, err := client.Watch(patient(t), &grpc_health_v1.HealthCheckRequest{Service: "other"})
	require.NoError(t, err)
	a, err = other.Recv()
	require.NoError(t, err)
	require.Equal(t, grpc_health_v1.HealthCheckResponse_SERVICE_UNKNOWN, a.Status)
	list, err := client.List(patient(t), &grpc_health_v1.HealthListRequest{})
	require.NoError(t, err)
	require.Len(t, list.Statuses, 2)
	reflected, err := grpc_reflection_v1.NewServerReflectionClient(dial(t, r.addr)).ServerReflectionInfo(patient(t))
	require.NoError(t, err)
	require.NoError(t, reflected.Send(&grpc_reflection_v1.ServerReflectionRequest{MessageRequest: &grpc_reflection_v1.ServerReflectionRequest_FileContainingSymbol{FileContainingSymbol: name}}))
	info, err := reflected.Recv()
	require.NoError(t, err)
	require.NotEmpty(t, info.GetFileDescriptorResponse().GetFileDescriptorProto())
	began := time.Now()
	require.NoError(t, r.front.Shutdown(patient(t)))
	require.Less(t, time.Since(began), 10*time.Second)
}

// slow is a Decider that waits.
type slow struct {
	envoy.Decider
	calls   atomic.Int64
	release chan struct{}
}

func (s *slow) Pipeline(ctx context.Context, from decisions.Asker, dst, commands []byte) ([]byte, error) {
	s.calls.Add(1)
	<-s.release
	return s.Decider.Pipeline(ctx, from, dst, commands)
}

// Calls that are running when the server stops are answered.
func TestShutdownAnswersWhatIsUnderWay(t *testing.T) {
	s, err := server.New(server.Config{Parts: server.One(engine.New(engine.Config{}), nil)})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Shutdown(context.Background())) })
	waits := &slow{Decider: s.Caller(), release: make(chan struct{})}
	r := newRig(t, server.Config{}, envoy.Config{Decider: waits})
	answered := make(chan error, 1)
	go func() {
		_, err := r.ShouldRateLimit(patient(t), request("p", []string{"a", "b"}))
		answered <- err
	}()
	require.Eventually(t, func() bool { return waits.calls.Load() == 1 }, 10*time.Second, time.Millisecond)
	ended := make(chan error, 1)
	go func() { ended <- r.front.Shutdown(patient(t)) }()
	require.Eventually(t, func() bool {
		c, err := net.Dial("tcp", r.addr)
		if err == nil {
			c.Close()
		}
		return err != nil
	}, 10*time.Second, 10*time.Millisecond)
	close(waits.release)
	require.Equal(t, codes.NotFound, status.Code(<-answered), "there is no policy")
	require.NoError(t, <-ended)
}

// With a password, a call shows it or a token.
func TestTokens(t *testing.T) {
	r := newRig(t, server.Config{Runtime: server.Runtime{RequirePass: "secret", Access: accessOf("token")}}, envoy.Config{})
	ask := func(header ...string) codes.Code {
		_, err := r.ShouldRateLimit(metadata.AppendToOutgoingContext(patient(t), header...), request("p", []string{"a", "b"}))
		return status.Code(err)
	}
	require.Equal(t, codes.Unauthenticated, ask())
	require.Equal(t, codes.Unauthenticated, ask("authorization", "Bearer other"))
	require.Equal(t, codes.Unauthenticated, ask("authorization", "Basic secret"))
	require.Equal(t, codes.NotFound, ask("authorization", "Bearer secret"), "there is no policy")
	require.Equal(t, codes.NotFound, ask("authorization", "bearer  token"))
}

func accessOf(token string) (a [2]access.Grants) {
	a[access.PortGRPC].Tokens[access.RightRead] = token
	return a
}

// Each call is counted once, by what became of it.
func TestCallsAreCounted(t *testing.T) {
	counts := fronts.New()
	r := newRig(t, server.Config{}, envoy.Config{Fronts: counts})
	r.policy("edge", edge)
	ask := func(domain string, pair ...string) { _, _ = r.ShouldRateLimit(patient(t), request(domain, pair)) }
	for range 5 {
		ask("edge", "ip", "203.0.113.1")
	}
	ask("nosuch", "ip", "203.0.113.1")
	ask("", "ip", "203.0.113.1")
	registry := prometheus.NewRegistry()
	registry.MustRegister(counts)
	families, err := registry.Gather()
	require.NoError(t, err)
	counted := map[string]float64{}
	for _, m := range families[1].GetMetric() { // by front, and by result
		if m.GetLabel()[0].GetValue() == "grpc" {
			counted[m.GetLabel()[1].GetValue()] = m.GetCounter().GetValue()
		}
	}
	require.Equal(t, map[string]float64{"allowed": 3, "denied": 2, "refused": 1, "error": 1}, counted)
}
