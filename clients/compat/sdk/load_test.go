package sdk_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
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
	Rate  float64   // calls a second, at random times
	Plain bool      // asks for each call
	From  time.Time // when it begins
	For   time.Duration
}

// slot is how finely callers tell when their calls were admitted.
const slot = 50 * time.Millisecond

// called is what a caller prints.
type called struct {
	Asked    int64
	Admitted []int64 // by slot, since From
	Stats    headgate.Stats
	Worst    time.Duration // of a call
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
	options := headgate.Options{Timeout: 2 * time.Second} // the machine may stand still
	if c.Plain {
		options.MaxLeases = -1
	}
	client := headgate.New(goRedis(conn), options)
	r.Admitted = make([]int64, c.For/slot+100)
	for at := c.From; time.Since(c.From) < c.For; at = at.Add(time.Duration(rand.ExpFloat64() / c.Rate * float64(time.Second))) {
		time.Sleep(time.Until(at))
		r.Asked++
		began := time.Now()
		d, err := client.Allow(ctx, c.Key, c.Limit, 1)
		if err != nil {
			return r, err
		}
		r.Worst = max(r.Worst, time.Since(began))
		if d.Allowed {
			r.Admitted[max(time.Since(c.From), 0)/slot]++
		}
	}
	r.Stats = client.Stats()
	return r, client.Close(ctx)
}

// start starts a process, and returns what waits for it.
func (c *caller) start(t *testing.T) func() called {
	do, err := json.Marshal(c)
	require.NoError(t, err)
	cmd := subprocess.Command(os.Args[0])
	cmd.Env = append(os.Environ(), callerEnv+"="+string(do))
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	require.NoError(t, cmd.Start())
	return func() (r called) {
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
// demands that no interval has more calls than the limit.
func callers(t *testing.T, limit headgate.Limit, plain int, rates ...float64) []called {
	key := newKey()
	from := time.Now().Add(500 * time.Millisecond)
	var waits []func() called
	for i, rate := range rates {
		c := caller{
			Addr: servers.Plain.Addr, Key: key, Limit: limit, Rate: rate, Plain: i >= len(rates)-plain,
			From: from, For: warm + measured,
		}
		waits = append(waits, c.start(t))
	}
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
	// A bucket that drains evenly tells the fullest interval. A call may be noted a slot
	// after it was admitted.
	perSlot := float64(limit.Units) * slot.Seconds() / limit.Period.Seconds()
	level, highest := 0.0, 0.0
	for _, n := range sums {
		level = max(level-perSlot, 0) + float64(n)
		highest = max(highest, level)
	}
	capacity := float64(max(limit.Burst, limit.Units))
	assert.LessOrEqual(t, highest, capacity+2*perSlot, "calls beyond the refill of an interval")
	return done
}

// admitted returns how many calls a second were admitted while it was measured.
func (r *called) admitted() (rate float64) {
	for _, n := range r.Admitted[warm/slot : (warm+measured)/slot] {
		rate += float64(n)
	}
	return rate / measured.Seconds()
}

func report(t *testing.T, done []called) (sum, saved float64) {
	var asked, sent int64
	for i := range done {
		r := &done[i]
		sum, asked, sent = sum+r.admitted(), asked+r.Asked, sent+r.Stats.Sent
		t.Logf("asked %.0f/s, admitted %.1f/s, sent %.1f/s, local %d, denied locally %d, worst call %v",
			float64(r.Asked)/(warm+measured).Seconds(), r.admitted(), float64(r.Stats.Sent)/(warm+measured).Seconds(), r.Stats.Local, r.Stats.Denied, r.Worst)
	}
	saved = 1 - float64(sent)/float64(asked)
	t.Logf("together %.1f/s, %.2f %% of the calls saved", sum, 100*saved)
	return sum, saved
}

// TestShares has more demand than a limit of 1000/s: each process gets its max-min share.
func TestShares(t *testing.T) {
	for name, test := range map[string]struct {
		plain  int
		rates  []float64
		shares []float64
	}{
		"equal, one of them plain": {1, []float64{500, 500, 500, 500, 500}, []float64{200, 200, 200, 200, 200}},
		"one wants more":           {0, []float64{2000, 100, 100, 100}, []float64{700, 100, 100, 100}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			done := callers(t, headgate.PerSecond(1000), test.plain, test.rates...)
			sum, _ := report(t, done)
			assert.Greater(t, sum, 970.0, "calls a second of 1000")
			for i := range done {
				assert.InEpsilon(t, test.shares[i], done[i].admitted(), 0.1, "share of process %d", i)
			}
		})
	}
}

// TestSaved has four processes on a limit of what they ask for.
func TestSaved(t *testing.T) {
	for _, test := range []struct{ rate, saved float64 }{{100, 0.90}, {1000, 0.98}} {
		t.Run(fmt.Sprint(test.rate), func(t *testing.T) {
			t.Parallel()
			done := callers(t, headgate.PerSecond(int64(4*test.rate)), 0, test.rate, test.rate, test.rate, test.rate)
			_, saved := report(t, done)
			assert.Greater(t, saved, test.saved)
		})
	}
}
