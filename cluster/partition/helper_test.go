package partition

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate-io/headgate/engine"
)

// patience bounds a test's wait for an event that should come at once.
const patience = 10 * time.Second

// fakeReplication is a Replication whose state a test sets.
type fakeReplication struct {
	mu       sync.Mutex
	role     Role
	topology Topology
	dial     func(ctx context.Context) (net.Conn, error)
	ticket   atomic.Uint64
}

var _ Replication = (*fakeReplication)(nil)

func newFake(role Role) *fakeReplication {
	f := &fakeReplication{role: role}
	f.ticket.Store(1)
	return f
}

func (f *fakeReplication) set(change func(*fakeReplication)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(f)
}

func (f *fakeReplication) become(r Role) { f.set(func(f *fakeReplication) { f.role = r }) }

func (f *fakeReplication) Role() Role {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.role
}

func (f *fakeReplication) Ticket() uint64                         { return f.ticket.Load() }
func (f *fakeReplication) Since() uint64                          { return f.ticket.Load() }
func (f *fakeReplication) Term() uint64                           { return 1 }
func (f *fakeReplication) Await()                                 {}
func (f *fakeReplication) Expect()                                {}
func (f *fakeReplication) Durable() bool                          { return false }
func (f *fakeReplication) AwaitReplicas(context.Context, int) int { return 0 }

func (f *fakeReplication) Topology() Topology {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.topology
}

func (f *fakeReplication) DialNode(context.Context, string) (net.Conn, error) { return nil, errAlone }

func (f *fakeReplication) DialLeader(ctx context.Context) (net.Conn, error) {
	f.mu.Lock()
	dial := f.dial
	f.mu.Unlock()
	if dial == nil {
		return nil, errors.New("no leader is known")
	}
	return dial(ctx)
}

// fakePartition is a partition of a fake cluster.
func fakePartition(t testing.TB, r Replication, onFailure OnFailure) *Partition {
	p := New(Config{
		Engine: engine.New(engine.Config{}), Replication: r, Front: new(quietFront), Logger: slog.New(slog.DiscardHandler),
		OnFailure: onFailure, ForwardTimeout: patience, HandoverWait: patience, MostReply: 1 << 20, MaxArgs: 1 << 20,
	})
	t.Cleanup(p.Close)
	return p
}
