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
	// maxArriving calls have begun whose requests have not come whole. Each may have
	// sent maxRequestBytes and maxHeaderBytes. For one more the connection closes that
	// has most of them.
	maxArriving = 2048
	// callTimeout is for calls that have no deadline of their own, or a later one.
	callTimeout = 10 * time.Second
	// maxEndless calls are under way that have no end of their own.
	maxEndless = 256
)

var (
	errArriving = status.Error(codes.ResourceExhausted, "BUSY too many requests have not come whole")
	errEndless  = status.Error(codes.ResourceExhausted, "BUSY too many clients watch health or use reflection")
)

// endless are the methods whose calls have no end of their own.
var endless = map[string]bool{
	grpc_health_v1.Health_Watch_FullMethodName:                                   true,
	grpc_reflection_v1.ServerReflection_ServerReflectionInfo_FullMethodName:      true,
	grpc_reflection_v1alpha.ServerReflection_ServerReflectionInfo_FullMethodName: true,
}

// arrivals bounds what clients begin and do not finish.
type arrivals struct {
	mu sync.Mutex
	// requests are calls whose requests have not come whole, of connections that
	// have not been closed for theirs.
	requests int // guarded by mu

	endless atomic.Int64
	// running is done when what has no end of its own is to end.
	running context.Context
	end     context.CancelFunc
}

func newArrivals() *arrivals {
	a := new(arrivals)
	a.running, a.end = context.WithCancel(context.Background())
	return a
}

// arrivalKey is the key of a call's func() in its context, which says that its
// request has come whole.
type arrivalKey struct{}

// tap is called with the head of each call, by the goroutine that reads the
// connection. The context that it returns is that of the call.
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

// begin counts a call of c, and closes a connection if that is one too many. It
// returns false when it is, or was, c that is closed.
func (a *arrivals) begin(c *connection) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if c.cut {
		return false
	}
	c.arriving++
	if a.requests++; a.requests > maxArriving {
		busiest := c.of.closeBusiest(c)
		// Its calls end a moment later: others that begin meanwhile close nobody.
		busiest.cut = true
		a.requests -= busiest.arriving
	}
	return !c.cut
}

// leave ends what begin has counted.
func (a *arrivals) leave(c *connection) {
	a.mu.Lock()
	defer a.mu.Unlock()
	c.arriving--
	if !c.cut {
		a.requests--
	}
}

// arrived notes that the request of a call has come whole.
func arrived(ctx context.Context) {
	if note, ok := ctx.Value(arrivalKey{}).(func()); ok {
		note()
	}
}
