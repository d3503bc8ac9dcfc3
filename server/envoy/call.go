package envoy

import (
	"context"
	"errors"
	"sync"
	"time"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/headgate-io/headgate/server"
	"github.com/headgate-io/headgate/server/access"
	"github.com/headgate-io/headgate/server/decisions"
	"github.com/headgate-io/headgate/server/fronts"
	"github.com/headgate-io/headgate/server/verdict"
)

// Decider runs commands for the front, as [server.Caller] does.
type Decider interface {
	// Pipeline runs commands and appends their replies in RESP3 to dst.
	Pipeline(ctx context.Context, from decisions.Asker, dst, commands []byte) ([]byte, error)
	// Open reports whether a right needs no credentials.
	Open(port access.Port, right access.Right, local bool) bool
	// Admit returns the client of a request that needs a right.
	Admit(ctx context.Context, port access.Port, shown *access.Shown, right access.Right) (server.Client, error)
}

// service is the Rate Limit Service.
type service struct {
	decider Decider
	local   bool // see Config
	now     func() time.Time
	asked   *fronts.Front
}

// exchange is the memory for one call.
type exchange struct {
	body     []byte // the encoded request
	wrong    error  // the request's error, or nil
	asked    verdict.Descriptors
	parts    []part              // of descriptors
	entries  []verdict.Attribute // entries of all descriptors
	commands []byte
	replies  []byte
	ruling   verdict.Ruling
	shown    verdict.Verdict // the ruling as a verdict, for header fields
	ctx      context.Context // the call's context
	here     time.Time       // when the request was complete; zero before
	result   fronts.Result
}

// exchanges keeps exchanges and their memory for other calls.
var exchanges = sync.Pool{New: func() any { return new(exchange) }}

// roomKept is the size of the largest buffer that is reused, in bytes.
const roomKept = 64 << 10

func (x *exchange) end() {
	if max(cap(x.body), cap(x.commands), cap(x.replies)) > roomKept {
		return
	}
	x.ctx, x.here, x.result = nil, time.Time{}, fronts.Allowed
	x.wrong, x.asked = nil, verdict.Descriptors{Descriptors: x.asked.Descriptors[:0]}
	x.parts, x.entries = x.parts[:0], x.entries[:0]
	x.commands, x.replies = x.commands[:0], x.replies[:0]
	exchanges.Put(x)
}

var _ decisions.Asker = (*exchange)(nil)

// Origin implements decisions.Asker.
func (x *exchange) Origin() decisions.Origin {
	first := func(name string) string {
		if values := metadata.ValueFromIncomingContext(x.ctx, name); len(values) > 0 {
			return values[0]
		}
		return ""
	}
	return decisions.Origin{Front: fronts.NameGRPC, Request: first("x-request-id"), Trace: decisions.TraceID(first("traceparent"))}
}

// description describes the service to grpc. Its messages are types that only this
// package's codec knows.
var description = grpc.ServiceDesc{
	ServiceName: rls.RateLimitService_ServiceDesc.ServiceName,
	HandlerType: (*any)(nil),
	Methods: []grpc.MethodDesc{{MethodName: "ShouldRateLimit", Handler: func(srv any, ctx context.Context, read func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
		return srv.(*service).shouldRateLimit(ctx, read)
	}}},
	Metadata: rls.RateLimitService_ServiceDesc.Metadata,
}

// shouldRateLimit answers a call, and counts the call.
func (s *service) shouldRateLimit(ctx context.Context, read func(any) error) (any, error) {
	x := exchanges.Get().(*exchange)
	defer x.end()
	answer, err := s.decide(ctx, x, read)
	if err != nil {
		x.result = resultOf(err)
	}
	s.asked.Count(x.result, x.here)
	if err != nil {
		return nil, err
	}
	return answer, nil
}

// decide decides a call. All descriptors of a request are decided in one step.
func (s *service) decide(ctx context.Context, x *exchange, read func(any) error) (message, error) {
	if err := s.admit(ctx); err != nil {
		return nil, err
	}
	if err := read(x); err != nil { // waits until the request is complete
		return nil, err
	}
	arrived(ctx)
	x.ctx, x.here = ctx, s.now()
	// Charge nothing for a call whose client has given up. The context may not show yet
	// that the deadline has passed.
	if end, ok := ctx.Deadline(); ok && !s.now().Before(end) {
		return nil, statusOf(context.DeadlineExceeded)
	}
	err := x.wrong
	if err == nil {
		x.commands, err = x.asked.Append(x.commands)
	}
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	if x.replies, err = s.decider.Pipeline(ctx, x, x.replies, x.commands); err != nil {
		return nil, statusOf(err)
	}
	if _, err := x.ruling.Read(x.replies); err != nil {
		if reply := new(verdict.Error); errors.As(err, &reply) && codeOf(reply.Code) == codes.InvalidArgument && !reply.TooEarly() {
			x.result = fronts.Refused
			return x.refuse(reply.Text), nil
		}
		return nil, statusOf(err)
	}
	x.result = fronts.Of(!x.ruling.Over)
	return x.answer(x.here), nil
}
