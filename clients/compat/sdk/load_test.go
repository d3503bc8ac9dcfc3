package sdk_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	headgate "github.com/headgate-io/headgate/clients/go"
	"github.com/headgate-io/headgate/internal/subprocess"
)

// callerEnv holds what a process of this program does instead of tests: a caller.
const callerEnv = "SDK_TEST_CALLER"

// caller is a process that asks for one key.
type caller struct {
	Addr  string
	Key   string
	Limit headgate.Limit
	Rate  float64       // calls a second, at random times
	Spike time.Duration // from when on there are ten times as many; 0 for never
	Plain bool          // asks for each call
	From  time.Time     // when it begins
	For   time.Duration

	Timeout time.Duration
}

// slot is how finely callers tell when their calls were admitted.
const slot = 50 * time.Millisecond

// called is what a caller prints.
type called struct {
	Asked    int64
	Admitted []int64 // by slot, since From
	Stats    headgate.Stats
	Worst    time.Duration // of a call
	Usual    time.Duration // p99 of calls in the second before Spike
	Spiked   time.Duration // p99 of calls from Spike on
	Late     time.Duration // for how long this process was not run when it was due, at most
}

func runCaller() {
	var c caller
	if err := json.Unmarshal([]byte(os.Getenv(callerEnv)), &c); err != nil {
		panic(err)
	}
	r, err := c.run()
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(r)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func (c *caller) run() (r called, err error) {
	ctx := context.Background()
	conn := newGoRedis(c.Addr, "", nil, 3)
	defer func() { _ = conn.Close() }()
	options := headgate.Options{Timeout: c.Timeout, Logger: slog.New(slog.DiscardHandler)}
	if c.Plain {
		options.MaxLeases = -1
	}
	client := headgate.New(goRedis(conn), options)
	r.Admitted = make([]int64, c.For/slot+100)
	var before, after []time.Duration
	watch := watchStalls()
	defer func() { r.Late = watch.stop() }()
	rate := c.Rate
	for at := c.From; time.Since(c.From) < c.For; at = at.Add(time.Duration(rand.ExpFloat64() / rate * float64(time.Second))) {
		time.Sleep(time.Until(at))
		r.Asked++
		began := time.Now()
		d, err := client.Allow(ctx, c.Key, c.Limit, 1)
		if err != nil {
			return r, err
		}
		took := time.Since(began)
		r.Worst = max(r.Worst, took)
		switch since := began.Sub(c.From); {
		case c.Spike == 0:
		case since >= c.Spike:
			rate = 10 * c.Rate
			after = append(after, took)
		case since >= c.Spike-time.Second:
			before = append(before, took)
		}
		if d.Allowed {
			r.Admitted[max(time.Since(c.From), 0)/slot]++
		}
	}
	r.Stats = client.Stats()
	r.Usual, r.Spiked = p99(before), p99(after)
	return r, client.Close(ctx)
}

func p99(of []time.Duration) time.Duration {
	if len(of) == 0 {
		return 0
	}
	slices.Sort(of)
	return of[len(of)*99/100]
}

// start starts a process, and returns it and what waits for it.
func (c *caller) start(t *testing.T) (*os.Process, func() called) {
	do, err := json.Marshal(c)
	require.NoError(t, err)
	cmd := subprocess.Command(os.Args[0])
	cmd.Env = append(os.Environ(), callerEnv+"="+string(do))
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	require.NoError(t, cmd.Start())
	return cmd.Process, func() (r called) {
		require.NoError(t, cmd.Wait(), errs.String())
		require.NoError(t, json.Unmarshal(out.Bytes(), &r))
		return r
	}
}

// warm is how long callers run before they are measured, and measured how long then.
const (
	warm     = 3 * time.Second
	measured = 10 * time.Second
)

// callers runs processes with rates on one limit, the last ones without leases, and
// demands that no interval has more calls than the limit. disturb may do harm to them.
func callers(t *testing.T, limit headgate.Limit, plain int, disturb func([]*os.Process), rates ...float64) []called {
	key := newKey()
	from := time.Now().Add(500 * time.Millisecond)
	var processes []*os.Process
	var waits []func() called
	for i, rate := range rates {
		c := caller{
			Addr: servers.Plain.Addr, Key: key, Limit: limit, Rate: rate, Plain: i >= len(rates)-plain,
			From: from, For: warm + measured, Timeout: 2 * time.Second, // the machine may stand still
		}
		p, wait := c.start(t)
		processes, waits = append(processes, p), append(waits, wait)
	}
	disturb(processes)
	var done []called
	for _, wait := range waits {
		done = append(done, wait())
	}
	sums := make([]int64, len(done[0].Admitted))
	for _, r := range done {
		for i, n := range r.Admitted {
			sums[i] += n
		}
	}
	// A bucket that drains evenly tells the fullest interval. A call may be noted later than
	// it was admitted, by less than late.
	const late = 5 * slot
	perSlot := float64(limit.Units) * slot.Seconds() / limit.Period.Seconds()
	level, highest := 0.0, 0.0
	for _, n := range sums {
		level = max(level-perSlot, 0) + float64(n)
		highest = max(highest, level)
	}
	capacity := float64(max(limit.Burst, limit.Units))
	t.Logf("the fullest interval had %.0f calls more than its refill, of %.0f", highest, capacity)
	assert.LessOrEqual(t, highest, capacity+perSlot*float64(late/slot), "calls beyond the refill of an interval")
	return done
}

// admitted returns how many calls a second were admitted while it was measured.
func (r *called) admitted() (rate float64) {
	for _, n := range r.Admitted[warm/slot : (warm+measured)/slot] {
		rate += float64(n)
	}
	return rate / measured.Seconds()
}

// report logs what processes had, and returns how many calls a second were admitted and
// the part of the calls that did not go to the server.
func report(t *testing.T, done []called) (sum, saved float64) {
	var asked, sent int64
	const lasts = float64((warm + measured) / time.Second)
	for i := range done {
		r := &done[i]
		sum, asked, sent = sum+r.admitted(), asked+r.Asked, sent+r.Stats.Sent
		t.Logf("asked %.0f/s, admitted %.1f/s, sent %.1f/s, admitted locally %d, denied locally %d, worst call %v",
			float64(r.Asked)/lasts, r.admitted(), float64(r.Stats.Sent)/lasts, r.Stats.Local, r.Stats.Denied, r.Worst)
	}
	saved = 1 - float64(sent)/float64(asked)
	t.Logf("together %.1f/s, %.2f %% of the calls saved", sum, 100*saved)
	return sum, saved
}

// TestProcesses has processes share a limit of 1000/s. TestFairShares demands how, without
// the other work of a machine.
func TestProcesses(t *testing.T) {
	t.Run("saved", func(t *testing.T) {
		t.Parallel()
		sum, saved := report(t, callers(t, headgate.PerSecond(1000), 0, func([]*os.Process) {}, 250, 250, 250, 250))
		assert.Greater(t, sum, 900.0, "calls a second of 1000")
		assert.Greater(t, saved, 0.9)
	})
	t.Run("shares", func(t *testing.T) {
		t.Parallel()
		done := callers(t, headgate.PerSecond(1000), 1, func([]*os.Process) {}, 500, 500, 500, 500, 500)
		sum, _ := report(t, done)
		assert.Greater(t, sum, 900.0, "calls a second of 1000")
		for i := range done {
			assert.InEpsilon(t, 200, done[i].admitted(), 0.2, "share of process %d", i)
		}
	})
	// A process that stood still finds its units gone.
	t.Run("stopped", func(t *testing.T) {
		t.Parallel()
		report(t, callers(t, headgate.PerSecond(1000), 0, func(p []*os.Process) {
			time.Sleep(warm)
			for range 2 {
				assert.NoError(t, p[0].Signal(syscall.SIGSTOP))
				time.Sleep(3 * time.Second)
				assert.NoError(t, p[0].Signal(syscall.SIGCONT))
				time.Sleep(time.Second)
			}
		}, 500, 500, 500, 500))
	})
}
