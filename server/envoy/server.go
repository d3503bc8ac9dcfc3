package envoy

import (
	"cmp"
	"context"
	"net"
	"runtime"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"

	"github.com/headgate-io/headgate/server/fronts"
)

const (
	// DefaultMaxClients is the default bound of connections. Gateways open far fewer: one
	// connection per thread.
	DefaultMaxClients = 1000
	// maxStreams bounds the calls that run at the same time on a connection. For more,
	// Envoy opens another connection.
	maxStreams = 100
	// maxRequestBytes bounds a request. It is enough for several descriptors with all the
	// header fields that Envoy accepts from a client, 60 KiB.
	maxRequestBytes = 256 << 10
	// maxHeaderBytes bounds the metadata of a call.
	maxHeaderBytes = 16 << 10
	// streamWindow bounds the bytes that a client may send of one call before they are
	// read. connWindow bounds them for all calls of a connection. By default grpc enlarges
	// both as the traffic grows.
	streamWindow = 64 << 10
	connWindow   = 512 << 10
	// handshakeTimeout bounds the time for the preface of HTTP/2.
	handshakeTimeout = 5 * time.Second
	// leastPing allows Envoy to ask every 10 s whether an idle connection is alive. The
	// server asks after a minute.
	leastPing   = 10 * time.Second
	pingAfter   = time.Minute
	pingTimeout = 20 * time.Second
)

// Config configures a Server.
type Config struct {
	// Decider decides the requests.
	Decider Decider
	// Fronts counts the requests. If it is nil, the server makes its own counts, which
	// nobody sees.
	Fronts *fronts.Counts
	// Fit returns why the node can decide nothing now, or nil. Health checks answer with
	// its result.
	Fit func() error
	// Local reports that only this machine can reach the port.
	Local bool
	// MaxClients bounds the connections; 0 means DefaultMaxClients.
	MaxClients int
}

// Server is the gRPC front.
type Server struct {
	grpc     *grpc.Server
	health   *healthService
	most     int
	arriving *arrivals
}

// New returns a Server. It listens on no port until Serve.
func New(c Config) *Server {
	s := &Server{health: newHealthService(c.Fit), most: cmp.Or(c.MaxClients, DefaultMaxClients), arriving: newArrivals()}
	if c.Fronts == nil {
		c.Fronts = fronts.New()
	}
	options := []grpc.ServerOption{
		grpc.MaxConcurrentStreams(maxStreams),
		grpc.MaxRecvMsgSize(maxRequestBytes),
		grpc.MaxHeaderListSize(maxHeaderBytes),
		grpc.InitialWindowSize(streamWindow),
		grpc.InitialConnWindowSize(connWindow),
		grpc.ConnectionTimeout(handshakeTimeout),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: leastPing, PermitWithoutStream: true}),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: pingAfter, Timeout: pingTimeout}),
		grpc.InTapHandle(s.arriving.tap),
		grpc.NumStreamWorkers(uint32(runtime.GOMAXPROCS(0))),
		grpc.WaitForHandlers(true),
		grpc.ForceServerCodecV2(newCodec()),
		grpc.Creds(shaken{insecure.NewCredentials()}),
	}
	s.grpc = grpc.NewServer(options...)
	s.grpc.RegisterService(&description, &service{decider: c.Decider, local: c.Local, now: time.Now, asked: &c.Fronts.GRPC})
	grpc_health_v1.RegisterHealthServer(s.grpc, s.health)
	reflection.Register(s.grpc)
	return s
}

// Serve answers the connections of l until Shutdown, and closes l. TLS handshakes are
// already over when l returns a connection.
func (s *Server) Serve(l net.Listener) error {
	return s.grpc.Serve(&bounded{Listener: l, most: s.most})
}

// Shutdown stops listening, and tells health checks and clients to go elsewhere. It waits
// for the calls in work. When ctx is done, it cuts off the remaining calls.
func (s *Server) Shutdown(ctx context.Context) error {
	s.health.end()
	s.arriving.end()
	done := make(chan struct{})
	go func() { defer close(done); s.grpc.GracefulStop() }()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		s.grpc.Stop()
		<-done
		return ctx.Err()
	}
}
