package sdk_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	headgate "github.com/headgate-io/headgate/clients/go"
	"github.com/headgate-io/headgate/engine/algo"
)

var update = flag.Bool("update", false, "write clients/conformance/leases.json")

const tracePath = "../../conformance/leases.json"

// traced is a scenario of leases: what the Go client does against the engine.
//
// Calls are at moments of 1 ms more than a multiple of 4, replies at 3 more, the client gives
// up at 2 more, and sweeps at multiples of 4. So little happens at one moment in an order of
// chance.
type traced struct {
	name  string
	limit headgate.Limit
	ttl   time.Duration
	wire  func(n int, command string) fate     // of the n-th command
	load  func(at int64, r *rand.Rand) []int64 // costs of the calls at a moment
	other func(at int64) int64                 // units that others take then
	lasts int64                                // ms
}

const tracedTimeout = 53 * time.Millisecond

// fate is what becomes of a command.
type fate struct {
	delay int64 // ms at least
	lost  bool  // no reply comes
	err   string
}

type tracedLimit struct {
	Units     int64  `json:"units"`
	Period    int64  `json:"period_ms"`
	Algorithm string `json:"algorithm,omitempty"`
	Burst     int64  `json:"burst,omitempty"`
	OnFailure string `json:"on_failure,omitempty"`
}

// tape records what is sent.
type tape struct {
	*node
	t     *testing.T
	began time.Time
	wire  func(n int, command string) fate

	recording sync.Mutex
	batch     []*tapedCommand
	sent      []*tapedCommand
	ids       map[string]string
}

type tapedCommand struct {
	at    int64
	given []any
	args  []string
	lost  bool
	delay any // nil if no reply comes
	reply any
	err   error
}

func (p *tape) ms() int64 { return time.Since(p.began).Milliseconds() }

func (p *tape) Do(ctx context.Context, args ...any) (any, error) {
	at := p.ms()
	assert.Equal(p.t, at*1e6, int64(time.Since(p.began)), "a command at a part of a millisecond")
	c := &tapedCommand{at: at, given: args}
	p.recording.Lock()
	for i, a := range args {
		s := fmt.Sprint(a)
		if i > 0 && args[i-1] == "ID" {
			if p.ids[s] == "" {
				p.ids[s] = fmt.Sprint("*", len(p.ids)+1)
			}
			s = p.ids[s]
		}
		c.args = append(c.args, s)
	}
	p.batch = append(p.batch, c)
	p.recording.Unlock()
	time.Sleep(time.Millisecond)
	p.recording.Lock()
	p.answer()
	p.recording.Unlock()
	if c.lost {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	time.Sleep(time.Duration(c.delay.(int64)-1) * time.Millisecond)
	return c.reply, c.err
}

// answer decides the commands that came at one moment. They came in any order.
func (p *tape) answer() {
	slices.SortFunc(p.batch, func(a, b *tapedCommand) int { return slices.Compare(a.args, b.args) })
	for i, c := range p.batch {
		if i > 0 {
			assert.NotEqual(p.t, p.batch[i-1].args, c.args, "two commands that only their order tells apart")
		}
		f := p.wire(len(p.sent), c.args[0])
		p.sent = append(p.sent, c)
		if c.lost = f.lost; c.lost {
			continue
		}
		for (c.at+f.delay)%4 != 3 || f.delay < 2 {
			f.delay++
		}
		c.delay = f.delay
		if f.err != "" {
			c.reply, c.err = map[string]string{"error": f.err}, errors.New(f.err)
			continue
		}
		reply, err := p.decide(c.given)
		require.NoError(p.t, err)
		c.reply = reply
	}
	p.batch = nil
}

// line returns a value on one line.
func line(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// record runs a scenario and returns its text.
func (s *traced) record(t *testing.T) string {
	var calls []string
	p := &tape{t: t, node: newNode(), wire: s.wire, ids: make(map[string]string)}
	synctest.Test(t, func(t *testing.T) {
		p.t, p.began = t, time.Now()
		c := headgate.New(p, headgate.Options{LeaseTTL: s.ttl, Timeout: tracedTimeout, Logger: slog.New(slog.DiscardHandler)})
		r := rand.New(rand.NewPCG(28, 28))
		var callers sync.WaitGroup
		for at := int64(1); at < s.lasts; at += 4 {
			time.Sleep(time.Until(p.began.Add(time.Duration(at) * time.Millisecond)))
			synctest.Wait()
			if s.other != nil {
				if n := s.other(at); n > 0 {
					p.mu.Lock()
					_, err := p.sess.Decide(time.Now().UnixNano(), []byte("k"), engineLimit(s.limit), n, nil)
					p.mu.Unlock()
					require.NoError(t, err)
				}
			}
			for _, cost := range s.load(at, r) {
				i := len(calls)
				calls = append(calls, "")
				callers.Go(func() {
					d, err := c.Allow(context.Background(), "k", s.limit, cost)
					assert.NoError(t, err)
					retry := int64(-1)
					if d.RetryAfter >= 0 {
						retry = int64((d.RetryAfter + time.Millisecond - 1) / time.Millisecond)
					}
					calls[i] = line([]any{at, cost, p.ms(), d.Allowed, d.Source.String(), d.Remaining, retry})
				})
				synctest.Wait()
			}
		}
		callers.Wait()
		time.Sleep(time.Until(p.began.Add(time.Duration(s.lasts) * time.Millisecond)))
		synctest.Wait()
		assert.False(t, c.Stats().Away)
		require.NoError(t, c.Close(context.Background()))
	})
	var b bytes.Buffer
	l := tracedLimit{Units: s.limit.Units, Period: s.limit.Period.Milliseconds(), Burst: s.limit.Burst}
	if s.limit.Algorithm != headgate.Token {
		l.Algorithm = s.limit.Algorithm.String()
	}
	if s.limit.OnFailure != headgate.Local {
		l.OnFailure = s.limit.OnFailure.String()
	}
	fmt.Fprintf(&b, "  {\"name\": %s, \"options\": %s, \"limit\": %s,\n    \"calls\": [", line(s.name),
		line(map[string]any{"timeout_ms": tracedTimeout.Milliseconds(), "leases": true, "lease_ttl_ms": s.ttl.Milliseconds()}), line(l))
	for i, call := range calls {
		if i%4 == 0 {
			b.WriteString("\n      ")
		}
		b.WriteString(call)
		if i < len(calls)-1 {
			b.WriteString(", ")
		}
	}
	b.WriteString("],\n    \"server\": [\n")
	for i, c := range p.sent {
		end := ",\n"
		if i == len(p.sent)-1 {
			end = "],\n"
		}
		b.WriteString("      " + line([]any{c.at, c.args, c.delay, c.reply}) + end)
	}
	fmt.Fprintf(&b, "    \"close_ms\": %d}", s.lasts)
	return b.String()
}

func engineLimit(l headgate.Limit) algo.Limit {
	limit := algo.Limit{
		Algorithm: []algo.Algorithm{algo.Token, algo.Leaky, algo.Fixed, algo.Sliding}[l.Algorithm], Limit: l.Units, Period: int64(l.Period), Burst: l.Burst,
	}
	if limit.Algorithm == algo.Token && limit.Burst == 0 {
		limit.Burst = l.Units
	}
	return limit
}

// every returns a load of calls of cost 1 so often, until then.
func every(ms, until int64) func(int64, *rand.Rand) []int64 {
	return func(at int64, _ *rand.Rand) []int64 {
		if at < until && (at-1)%ms == 0 {
			return []int64{1}
		}
		return nil
	}
}

// randomly returns a load of calls at random times, so many a second, of costs 1 to most.
// Calls that wait at the same time have other costs.
func randomly(rate float64, most, until int64) func(int64, *rand.Rand) []int64 {
	last := int64(0)
	return func(at int64, r *rand.Rand) (costs []int64) {
		if at < until && r.Float64() < rate*0.004 {
			last = last%most + 1
			costs = append(costs, last)
		}
		return costs
	}
}

func steadily(delay int64) func(int, string) fate {
	return func(int, string) fate { return fate{delay: delay} }
}

func traces() []traced {
	ttl := 2 * time.Second
	return []traced{
		{
			name: "a busy key is leased, renewed, and given back when it is idle", limit: headgate.PerSecond(1000), ttl: ttl,
			wire: steadily(2), load: every(8, 2500), lasts: 6000,
		}, {
			name: "a limit that is asked for more than it has", limit: headgate.PerSecond(100), ttl: ttl,
			wire: steadily(2), load: every(4, 2000), lasts: 2001,
		}, {
			name: "random demand, costs above 1, and others on the same limit", limit: headgate.Limit{Units: 200, Period: time.Second, Burst: 300}, ttl: ttl,
			wire: func(n int, _ string) fate { return fate{delay: int64(1 + n*7%23)} },
			load: randomly(70, 8, 3000), lasts: 3001,
			other: func(at int64) int64 {
				if at%20 == 1 && at > 800 {
					return 2
				}
				return 0
			},
		}, {
			name: "callers wait together for more than there is", limit: headgate.PerSecond(400), ttl: ttl,
			wire: steadily(8),
			load: func(at int64, r *rand.Rand) []int64 {
				switch {
				case at < 200:
					return []int64{1}
				case at%60 == 1:
					return []int64{30, 50, 70, 10, 20}
				case at%60 == 5:
					return []int64{40, 200, 500}
				}
				return nil
			},
			lasts: 1501,
		}, {
			name: "fixed windows", limit: headgate.Limit{Units: 200, Period: time.Second, Algorithm: headgate.Fixed}, ttl: ttl,
			wire: steadily(4), load: every(4, 2200), lasts: 2501,
		}, {
			name: "sliding windows", limit: headgate.Limit{Units: 200, Period: time.Second, Algorithm: headgate.Sliding}, ttl: ttl,
			wire: steadily(4), load: every(4, 2200), lasts: 2501,
		}, {
			name: "a limit that is too small to lease", limit: headgate.PerSecond(6), ttl: ttl,
			wire: steadily(2), load: every(20, 1200), lasts: 1401,
		}, {
			name: "lost requests, errors, and an election", limit: headgate.Limit{Units: 500, Period: time.Second, OnFailure: headgate.Closed}, ttl: ttl,
			wire: func(n int, command string) fate {
				switch {
				case command == "RL.LEASE" && n%5 == 2, command == "RL.LIMIT" && n == 3:
					return fate{lost: true}
				case command == "RL.LEASE" && n%7 == 3:
					return fate{delay: 2, err: "CLUSTERDOWN no leader"}
				case n%11 == 5:
					return fate{delay: 2, err: "OOM command not allowed when used memory > 'maxmemory'."}
				}
				return fate{delay: 2}
			},
			load: randomly(120, 13, 4000), lasts: 4001,
		}, {
			name: "a short lease, whose key rests and comes back", limit: headgate.PerSecond(1000), ttl: 500 * time.Millisecond,
			wire: steadily(2),
			load: func(at int64, r *rand.Rand) []int64 {
				if at%1000 < 300 && at%8 == 1 {
					return []int64{2}
				}
				return nil
			},
			lasts: 2501,
		},
	}
}

// TestLeaseTrace compares leases.json with what the client does now. -update writes it.
func TestLeaseTrace(t *testing.T) {
	var b bytes.Buffer
	b.WriteString("[\n")
	all := traces()
	for i := range all {
		b.WriteString(all[i].record(t))
		if i < len(all)-1 {
			b.WriteString(",")
		}
		b.WriteString("\n")
	}
	b.WriteString("]\n")
	if *update {
		require.NoError(t, os.WriteFile(tracePath, b.Bytes(), 0o644))
	}
	was, err := os.ReadFile(tracePath)
	require.NoError(t, err)
	if !bytes.Equal(was, b.Bytes()) {
		t.Error("leases.json is not what the client does now: go test . -run TestLeaseTrace -update")
	}
}
