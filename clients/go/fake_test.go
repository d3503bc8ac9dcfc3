package headgate_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	headgate "github.com/headgate-io/headgate/clients/go"
)

// server is a fake server. It admits all units, unless a test sets an answer.
type server struct {
	mu     sync.Mutex
	sent   [][]any
	delay  time.Duration
	answer func(name string, args []any) (any, error) // nil for the usual answer
}

func (s *server) Do(ctx context.Context, args ...any) (any, error) {
	s.mu.Lock()
	s.sent = append(s.sent, args)
	delay, answer := s.delay, s.answer
	s.mu.Unlock()
	time.Sleep(delay)
	if answer != nil {
		if reply, err := answer(args[0].(string), args); reply != nil || err != nil {
			return reply, err
		}
	}
	switch args[0] {
	case "RL.LIMIT":
		return ints(1, 1000, 999, 0, 1, 0), nil
	case "RL.LEASE":
		return granted(number(args, "NEED"), number(args, "WANT"), 2000, 0, 0), nil
	case "RL.RETURN":
		return number(args, "HELD"), nil
	}
	return nil, errors.New("ERR unknown command")
}

// set changes how the server answers.
func (s *server) set(delay time.Duration, answer func(name string, args []any) (any, error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.delay, s.answer = delay, answer
}

// calls returns the commands of a name that have arrived.
func (s *server) calls(name string) (calls [][]any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, args := range s.sent {
		if args[0] == name {
			calls = append(calls, args)
		}
	}
	return calls
}

// number returns the value of an option.
func number(args []any, option string) int64 {
	if i := slices.Index(args, any(option)); i >= 0 {
		return args[i+1].(int64)
	}
	return 0
}

func ints(v ...int64) any {
	reply := make([]any, len(v))
	for i := range v {
		reply[i] = v[i]
	}
	return reply
}

// granted is a reply to RL.LEASE for callers that need units.
func granted(need, units, ttl, refill, refillMs int64) any {
	return ints(1, 1000, 500, 0, 500, 0, need+units, ttl, refill, refillMs, 1)
}

// refused is a reply to RL.LEASE that denies NEED.
func refused(left, retry, units, ttl, refill, refillMs int64) any {
	return ints(0, 1000, left, retry, 500, 0, units, ttl, refill, refillMs, 1)
}

var perSecond = headgate.PerSecond(1000)

// rig is a client with a fake server.
type rig struct {
	*testing.T
	*server
	client *headgate.Client
	holds  int64 // units, after lease
}

func newRig(t *testing.T, o headgate.Options) *rig {
	r := &rig{T: t, server: new(server)}
	r.client = headgate.New(r.server, o)
	t.Cleanup(func() {
		_ = r.client.Close(context.Background())
		time.Sleep(time.Second) // the server does not heed contexts
	})
	return r
}

func (r *rig) allow(cost int64) headgate.Decision {
	r.Helper()
	d, err := r.client.Allow(context.Background(), "k", perSecond, cost)
	if err != nil {
		r.Errorf("Allow: %v", err)
	}
	return d
}

// lease makes the key k busy, so that the client leases it.
func (r *rig) lease() {
	r.Helper()
	for range 11 {
		r.allow(1)
	}
	if n := len(r.calls("RL.LEASE")); n != 1 {
		r.Fatalf("%d leases after eleven calls", n)
	}
	r.holds = number(r.calls("RL.LEASE")[0], "WANT")
}

func (r *rig) equal(what string, got, want any) {
	r.Helper()
	if got != want {
		r.Errorf("%s: %v, not %v", what, got, want)
	}
}

// leaseNothing lets the server admit calls and give no blocks.
func (r *rig) leaseNothing() {
	r.set(0, func(name string, args []any) (any, error) {
		if name == "RL.LEASE" {
			return granted(number(args, "NEED"), 0, 0, 0, 0), nil
		}
		return nil, nil
	})
}
