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
	// maxRequestBytes and maxHeaderBytes. Beyond the bound, the connection with the most
	// such calls is closed.
	maxArriving = 2048
	// callTimeout bounds the duration of calls that have no deadline, or a later one.
	callTimeout = 10 * time.Second
	// maxEndless bounds the running calls that run until the client ends them.
	maxEndless = 256
)

var (
	errArriving = status.Error(codes.ResourceExhausted, "BUSY too many requests are incomplete")
	errEndless  = status.Error(codes.ResourceExhausted, "BUSY too many clients watch health or use reflection")
)

// endless holds the methods whose calls run until the client ends them.
var endless = map[string]bool{
	grpc_health_v1.Health_Watch_FullMethodName:                                   true,
	grpc_reflection_v1.ServerReflection_ServerReflectionInfo_FullMethodName:      true,
	grpc_reflection_v1alpha.ServerReflection_ServerReflectionInfo_FullMethodName: true,
}

// arrivals bounds the calls whose requests clients begin and do not finish.
type arrivals struct {
	mu sync.Mutex
	// requests counts the calls whose requests are incomplete. It leaves out the calls of
	// connections that were closed for having too many.
	requests int // guarded by mu

	endless atomic.Int64
	// running is done when the endless calls must end.
	running context.Context
	end     context.CancelFunc
}

func newArrivals() *arrivals {
	a := new(arrivals)
	a.running, a.end = context.WithCancel(context.Background())
	return a
}

// arrivalKey is the key in a call's context of a func(). The call runs the function when
// its request is complete.
type arrivalKey struct{}

// tap returns the context of a new call. The goroutine that reads the connection calls tap
// with the call's head.
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

// begin counts a call of c. If there are then too many calls, it closes the connection with
// the most. It returns false if c is closed, whether now or before.
func (a *arrivals) begin(c *connection) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if c.cut {
		return false
	}
	c.arriving++
	if a.requests++; a.requests > maxArriving {
		busiest := c.of.closeBusiest(c)
		// The closed connection's calls end a moment later. It is marked, so that calls
		// that begin meanwhile close no other connection.
		busiest.cut = true
		a.requests -= busiest.arriving
	}
	return !c.cut
}

// leave removes a call that begin counted.
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
