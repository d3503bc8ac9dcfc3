package envoy_test

import (
	"context"
	"net"
	"os"
	"testing"
	"time"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/internal/hgtest"
	"github.com/headgate-io/headgate/server"
	"github.com/headgate-io/headgate/server/envoy"
)

func TestMain(m *testing.M) {
	code := m.Run()
	hgtest.Clean()
	os.Exit(code)
}

// rig is a server that answers over gRPC.
type rig struct {
	t      testing.TB
	addr   string
	server *server.Server
	front  *envoy.Server
	rls.RateLimitServiceClient
	conn *grpc.ClientConn // of raw
}

func newRig(t testing.TB, sc server.Config, ec envoy.Config) *rig {
	if sc.Parts == nil {
		sc.Parts = server.One(engine.New(engine.Config{}), nil)
	}
	s, err := server.New(sc)
	require.NoError(t, err)
	if ec.Decider == nil {
		ec.Decider = s.Caller()
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	r := &rig{t: t, addr: ln.Addr().String(), server: s, front: envoy.New(ec)}
	done := make(chan error, 1)
	go func() { done <- r.front.Serve(ln) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = r.front.Shutdown(ctx) // an error if a test has calls that do not end
		require.NoError(t, <-done)
		require.NoError(t, s.Shutdown(ctx))
	})
	r.RateLimitServiceClient = rls.NewRateLimitServiceClient(dial(t, r.addr))
	return r
}

// dial returns a connection of gRPC, without TLS unless an option says so.
func dial(t testing.TB, addr string, options ...grpc.DialOption) *grpc.ClientConn {
	if len(options) == 0 {
		options = []grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())}
	}
	c, err := grpc.NewClient("passthrough:"+addr, options...)
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}

// policy makes a text a policy.
func (r *rig) policy(name, text string) {
	r.t.Helper()
	reply, err := r.server.Caller().Do(context.Background(), []byte("RL.POLICY"), []byte("SET"), []byte(name), []byte(text))
	require.NoError(r.t, err)
	require.Empty(r.t, reply.Error())
}

// request asks a domain about descriptors, each of keys and values.
func request(domain string, descriptors ...[]string) *rls.RateLimitRequest {
	q := &rls.RateLimitRequest{Domain: domain}
	for _, pairs := range descriptors {
		d := new(ratelimit.RateLimitDescriptor)
		for i := 0; i < len(pairs); i += 2 {
			d.Entries = append(d.Entries, &ratelimit.RateLimitDescriptor_Entry{Key: pairs[i], Value: pairs[i+1]})
		}
		q.Descriptors = append(q.Descriptors, d)
	}
	return q
}

// patient is a context for a call on a machine that may be busy.
func patient(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	context.AfterFunc(t.Context(), cancel)
	return ctx
}

// appendRequest appends a request with one descriptor more, of a value that need not be
// UTF-8.
func appendRequest(b []byte, q *rls.RateLimitRequest, value string) []byte {
	b, err := proto.MarshalOptions{}.MarshalAppend(b, q)
	if err != nil {
		panic(err)
	}
	nested := func(number protowire.Number, body []byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(nil, number, protowire.BytesType), body)
	}
	entry := append(nested(1, []byte("other")), nested(2, []byte(value))...)
	return append(b, nested(2, nested(1, entry))...)
}

// rawCodec sends requests as they are.
type rawCodec struct{ encoding.CodecV2 }

func (c rawCodec) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(v.([]byte))}, nil
}

// raw sends a request as it is.
func (r *rig) raw(ctx context.Context, request []byte) (*rls.RateLimitResponse, error) {
	if r.conn == nil {
		r.conn = dial(r.t, r.addr)
	}
	a := new(rls.RateLimitResponse)
	return a, r.conn.Invoke(ctx, rls.RateLimitService_ShouldRateLimit_FullMethodName, request, a, grpc.ForceCodecV2(rawCodec{encoding.GetCodecV2("proto")}))
}
