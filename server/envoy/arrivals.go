package envoy

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/reflection/grpc_reflection_v1alpha"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"
)

const (
	// maxArriving bounds the calls whose requests are incomplete. Each may have sent
	// maxRequestBytes and maxHeaderBytes. Beyond the bound the connection with most of them
	// is closed.
	maxArriving = 2048
	// callTimeout bounds calls that have no deadline, or a later one.
	callTimeout = 10 * time.Second
	// maxEndless bounds the running calls without an end of their own.
	maxEndless = 256
)

var (
	errArriving = status.Error(codes.ResourceExhausted, "BUSY too many requests are incomplete")
	errEndless  = status.Error(codes.ResourceExhausted, "BUSY too many clients watch health or use reflection")
)

// endless are the methods whose calls have no end of their own.
var endless = map[string]bool{
	grpc_health_v1.Health_Watch_FullMethodName:                                   true,
	grpc_reflection_v1.ServerReflection_ServerReflectionInfo_FullMethodName:      true,
	grpc_reflection_v1alpha.ServerReflection_ServerReflectionInfo_FullMethodName: true,
}

// arrivals bounds the calls that clients begin and do not finish.
type arrivals struct {
	mu sync.Mutex
	// requests counts the calls whose requests are incomplete, without those of connections
	// that were closed for them.
	requests int // guarded by mu

	endless atomic.Int64
	// running is done when calls without an end of their own must end.
	running context.Context
	end     context.CancelFunc
}

func newArrivals() *arrivals {
	a := new(arrivals)
	a.running, a.end = context.WithCancel(context.Background())
	return a
}

// arrivalKey is the key of a func() in a call's context. Calling it notes that the request
// is complete.
type arrivalKey struct{}

// tap is called with the head of each call, by the goroutine that reads the connection. It
// returns the context of the call.
func (a *arrivals) tap(ctx context.Context, info *tap.Info) (context.Context, error) {
	if endless[info.FullMethodName] {
		if a.endless.Add(1) > maxEndless {
			a.endless.Add(-1)
			return ctx, errEndless
		}
		ctx, end := context.WithCancel(ctx)
		stay := context.AfterFunc(a.running, end)
		context.AfterFunc(ctx, func() {
			stay()
			a.endless.Add(-1)
		})
		return ctx, nil
	}
	c := connectionOf(ctx)
	if !a.begin(c) {
		return ctx, errArriving
	}
	leave := func() { a.leave(c) }
	over := leave
	if at, ok := ctx.Deadline(); !ok || time.Until(at) > callTimeout {
		var end context.CancelFunc
		ctx, end = context.WithTimeout(ctx, callTimeout)
		over = func() { leave(); end() }
	}
	still := context.AfterFunc(ctx, over)
	return context.WithValue(ctx, arrivalKey{}, func() {
		if still() {
			leave()
		}
	}), nil
}

// begin counts a call of c. If that is one too many, it closes the connection with most. It
// returns false if c is closed, now or before.
func (a *arrivals) begin(c *connection) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if c.cut {
		return false
	}
	c.arriving++
	if a.requests++; a.requests > maxArriving {
		busiest := c.of.closeBusiest(c)
		// Its calls end a moment later, so it is marked: others that begin meanwhile close
		// nobody.
		busiest.cut = true
		a.requests -= busiest.arriving
	}
	return !c.cut
}

// leave removes a call that begin has counted.
func (a *arrivals) leave(c *connection) {
	a.mu.Lock()
	defer a.mu.Unlock()
	c.arriving--
	if !c.cut {
		a.requests--
	}
}

// arrived notes that the request of a call is complete.
func arrived(ctx context.Context) {
	if note, ok := ctx.Value(arrivalKey{}).(func()); ok {
		note()
	}
}
