package server

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/cluster/partition"
	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/ledger"
)

// hustle sends n random commands on a connection and drops the replies, until all are sent or
// the connection is closed, which other commands may do.
func hustle(t *testing.T, addr string, names []string, seed uint64, n int) {
	c := dial(t, addr)
	_ = c.SetDeadline(time.Now().Add(30 * patience))
	read := make(chan struct{})
	go func() {
		defer close(read)
		_, _ = io.Copy(io.Discard, c.Conn)
	}()
	r := rand.New(rand.NewPCG(seed, 1))
	words := []string{"a", "b", "k", "1", "2", "100", "*", "on", "off", "yes", "bcast", "ch", "0", "60"}
	lines := []string{
		"EVAL %q 2 a b", "EVAL %q 1 k", "EVAL_RO %q 0", "SCRIPT LOAD %q",
	}
	bodies := []string{
		"return redis.call('incr', KEYS[1])", "redis.call('publish', 'ch', 'x') return 1", "return redis.call('info')",
		"local n = 0 for i = 1, 30000 do n = n + i end redis.call('set', KEYS[1], n)", "return cjson.encode({KEYS[1]})",
		"for i = 1, 200 do redis.call('set', KEYS[1] .. i, i) end", "return redis.call('keys', '*')", "return redis.call('select', 3)",
		"local t = {} for i = 1, 1e5 do t[i] = {i} end return #t", "error('x')", "return redis.pcall('pubsub', 'channels')",
	}
	for i := range n {
		var line string
		switch r.IntN(6) {
		case 0:
			body := bodies[r.IntN(len(bodies))]
			if r.IntN(3) == 0 {
				body += fmt.Sprintf(" -- %d", r.IntN(50))
			}
			line = fmt.Sprintf(lines[r.IntN(len(lines))], body)
		case 1:
			line = "MULTI\r\nINCR a\r\nSET b 1\r\nSUNIONSTORE d s s\r\n" + []string{"EXEC", "DISCARD"}[r.IntN(2)]
		default:
			line = strings.ReplaceAll(names[r.IntN(len(names))], "|", " ")
			for range r.IntN(5) {
				line += " " + words[r.IntN(len(words))]
			}
		}
		if _, err := io.WriteString(c, line+"\r\n"); err != nil {
			break
		}
		if i%50 == 49 {
			time.Sleep(time.Millisecond)
		}
	}
	_, _ = io.WriteString(c, "\r\nRESET\r\nQUIT\r\n")
	<-read
}

// Commands of all kinds on many connections, beside calls, metrics and changes of
// the role; the race detector looks on.
func TestEverythingAtOnce(t *testing.T) {
	for _, clustered := range []bool{false, true} {
		cfg := Config{IOThreads: 2, Settings: newFakeSettings(), Runtime: Runtime{ScriptTime: 50 * time.Millisecond, SlowlogMaxLen: 16, SlowlogThreshold: 0}}
		cfg.part().Engine = engine.New(engine.Config{MaxBytes: 8 << 20})
		f := newFakeCluster(partition.Leading)
		if clustered {
			cfg.part().Replication, cfg.OnFailure = f, partition.FailLocal
			replica := cfg.part().Engine.Replicate(ledger.New(ledger.Hooks{}))
			replica.Lead(cfg.part().Engine.Now())
		}
		s, addr := startServer(t, cfg)
		names := slices.DeleteFunc(fuzzedCommands(s.table), func(name string) bool { return name == "shutdown" })
		names = append(names, "subscribe", "psubscribe", "ssubscribe", "unsubscribe", "sunsubscribe", "monitor", "client|pause")
		stop := make(chan struct{})
		ctx, cancel := context.WithCancel(t.Context()) // of calls that wait for a commit
		var beside, all sync.WaitGroup
		every := func(d time.Duration, fn func(i int)) {
			beside.Go(func() {
				for i := 0; ; i++ {
					select {
					case <-stop:
						return
					case <-time.After(d):
						fn(i)
					}
				}
			})
		}
		every(time.Millisecond, func(int) {
			s.Stats()
			s.Decisions()
			s.Durations()
			s.ScriptRuns()
			s.Busy()
		})
		every(time.Millisecond, func(i int) { s.Configure(Runtime{SlowlogMaxLen: i % 20, ScriptTime: 50 * time.Millisecond}) })
		every(100*time.Microsecond, func(i int) {
			var out [1]algo.Decision
			_, _ = s.Caller().Decide(ctx, perMinute("k", 10), out[:])
			_, _ = s.Caller().line(ctx, []string{"INCR a", "KEYS *", "EVAL return(1) 0"}[i%3])
		})
		if clustered {
			every(time.Millisecond, func(i int) {
				f.set(func(f *fakeCluster) { f.durable = i%7 == 0 })
				s.Partition().Release(f.ticket.Add(1)-1, nil)
			})
		}
		every(10*time.Millisecond, func(int) { s.unpause() })
		for i := range 8 {
			all.Go(func() { hustle(t, addr, names, uint64(i), 1500) })
		}
		all.Wait()
		close(stop)
		cancel()
		beside.Wait()
		if clustered {
			s.Partition().Release(f.ticket.Load(), nil)
		}
		require.Equal(t, "PONG", dial(t, addr).call("PING"))
	}
}
