package envoy

import (
	"context"
	"sync/atomic"
	"time"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	health "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

// watchEvery is how often the server looks for a change of health. A client that watches
// health learns of a change within that time.
const watchEvery = 25 * time.Millisecond

// healthService answers health checks. Each answer is the present result of Fit.
type healthService struct {
	health.UnimplementedHealthServer
	fit    func() error // see Config
	ending atomic.Bool  // the server is stopping
	ended  chan struct{}
}

func newHealthService(fit func() error) *healthService {
	return &healthService{fit: fit, ended: make(chan struct{})}
}

// end makes the node unhealthy forever.
func (h *healthService) end() {
	if !h.ending.Swap(true) {
		close(h.ended)
	}
}

// status returns the status of a service; "" is the whole server.
func (h *healthService) status(service string) health.HealthCheckResponse_ServingStatus {
	switch {
	case service != "" && service != rls.RateLimitService_ServiceDesc.ServiceName:
		return health.HealthCheckResponse_SERVICE_UNKNOWN
	case h.ending.Load(), h.fit != nil && h.fit() != nil:
		return health.HealthCheckResponse_NOT_SERVING
	}
	return health.HealthCheckResponse_SERVING
}

// Check implements health.HealthServer.
func (h *healthService) Check(_ context.Context, r *health.HealthCheckRequest) (*health.HealthCheckResponse, error) {
	is := h.status(r.Service)
	if is == health.HealthCheckResponse_SERVICE_UNKNOWN {
		return nil, status.Error(codes.NotFound, "unknown service")
	}
	return &health.HealthCheckResponse{Status: is}, nil
}

// List implements health.HealthServer.
func (h *healthService) List(context.Context, *health.HealthListRequest) (*health.HealthListResponse, error) {
	all := make(map[string]*health.HealthCheckResponse)
	for _, name := range []string{"", rls.RateLimitService_ServiceDesc.ServiceName} {
		all[name] = &health.HealthCheckResponse{Status: h.status(name)}
	}
	return &health.HealthListResponse{Statuses: all}, nil
}

// Watch implements health.HealthServer.
func (h *healthService) Watch(r *health.HealthCheckRequest, to grpc.ServerStreamingServer[health.HealthCheckResponse]) error {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	ended := h.ended
	told := health.HealthCheckResponse_UNKNOWN
	for {
		if is := h.status(r.Service); is != told {
			if err := to.Send(&health.HealthCheckResponse{Status: is}); err != nil {
				return err
			}
			told = is
		}
		select {
		case <-tick.C:
		case <-ended:
			ended = nil // the status does not change any more until the stream ends
		case <-to.Context().Done():
			return to.Context().Err()
		}
	}
}
