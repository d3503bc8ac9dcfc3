package headgate_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	headgate "github.com/headgate-io/headgate/clients/go"
)

// refuse makes the server unreachable.
func (r *rig) refuse() {
	r.set(0, func(string, []any) (any, error) { return nil, headgate.ErrNotSent })
}

// open opens the breaker.
func (r *rig) open() {
	r.Helper()
	r.refuse()
	for range 5 {
		if _, err := r.client.Allow(context.Background(), "other", headgate.Limit{Units: 1, Period: time.Second, OnFailure: headgate.Closed}, 1); err != nil {
			r.Error(err)
		}
	}
	r.equal("away", r.client.Stats().Away, true)
}

func quiet() headgate.Options { return headgate.Options{Logger: slog.New(slog.DiscardHandler)} }

func TestHoldersLastAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, quiet())
		r.set(0, func(name string, args []any) (any, error) {
			if name == "RL.LEASE" { // 50 holders
				return ints(1, 1000, 500, 0, 500, 0, number(args, "NEED")+number(args, "WANT"), 2000, 0, 0, 50), nil
			}
			return nil, nil
		})
		r.lease()
		r.open()
		time.Sleep(59 * time.Second) // the lease has lapsed
		r.equal("remaining of a fiftieth", r.allow(1).Remaining, int64(19))
		time.Sleep(2 * time.Second)
		r.equal("remaining of a fifth", r.allow(1).Remaining, int64(199))
	})
}

// TestQueuedCallersDoNotWaitTwice has callers come while a request hangs, of which they are
// no part. They are denied after their own 50 ms, and their units are not taken later.
func TestQueuedCallersDoNotWaitTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := quiet()
		r := newRig(t, o)
		r.lease()
		r.set(45*time.Millisecond, func(name string, args []any) (any, error) {
			if name == "RL.LEASE" {
				return granted(number(args, "NEED"), 5000, 2000, 0, 0), nil
			}
			return nil, nil
		})
		var callers sync.WaitGroup
		took := make([]time.Duration, 3)
		sources := make([]headgate.Source, 3)
		began := time.Now()
		for i, at := range []time.Duration{0, time.Millisecond, 2 * time.Millisecond} {
			callers.Go(func() {
				time.Sleep(at)
				from := time.Now()
				d, err := r.client.Allow(context.Background(), "k", perSecond, 9000)
				took[i], sources[i] = time.Since(from), d.Source
				r.equal("error", err, nil)
			})
		}
		callers.Wait()
		r.equal("source of the first", sources[0], headgate.Server)
		for i := 1; i < 3; i++ {
			r.equal("source", sources[i], headgate.Fallback)
			r.equal("took", took[i], 50*time.Millisecond)
		}
		r.equal("all", time.Since(began), 52*time.Millisecond)
		time.Sleep(time.Second)
	})
}

// TestQueuedCallersAreCharged has one whose request was never sent: what the fallback admits
// is charged. One that is part of a request may have been charged already.
func TestQueuedCallersAreCharged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, quiet())
		r.lease()
		r.set(0, func(name string, args []any) (any, error) {
			if name == "RL.LEASE" {
				time.Sleep(time.Second)
				return nil, nil
			}
			return nil, headgate.ErrNotSent
		})
		limit := perSecond
		var callers sync.WaitGroup
		for i := range 2 { // the first is asked for, the second waits for the next request
			callers.Go(func() {
				time.Sleep(time.Duration(i) * time.Millisecond)
				d, err := r.client.Allow(context.Background(), "k", limit, r.holds+1+int64(i))
				r.equal("error", err, nil)
				r.equal("source", d.Source, headgate.Fallback)
				r.equal("allowed", d.Allowed, true)
			})
		}
		callers.Wait()
		r.set(0, nil)
		_, _ = r.client.Allow(context.Background(), "another", limit, 1) // a success
		synctest.Wait()
		var forced []string
		for _, args := range r.calls("RL.LIMIT") {
			if args[len(args)-1] == "FORCE" {
				forced = append(forced, fmt.Sprint(args))
			}
		}
		r.equal("charged", strings.Join(forced, " "), fmt.Sprintf("[RL.LIMIT k 1000 1s COST %d FORCE]", r.holds+2))
		time.Sleep(2 * time.Second)
	})
}

// TestGoneCallersTakeNothing has callers give up while a request hangs. The reply is for
// those that still wait.
func TestGoneCallersTakeNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := quiet()
		o.Timeout = 500 * time.Millisecond
		r := newRig(t, o)
		r.lease()
		r.set(200*time.Millisecond, func(name string, args []any) (any, error) {
			if name == "RL.LEASE" {
				return granted(number(args, "NEED"), 1000, 2000, 0, 0), nil
			}
			return nil, nil
		})
		go r.allow(5000)
		synctest.Wait()
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		defer cancel()
		_, err := r.client.Allow(ctx, "k", perSecond, 900) // queued
		r.equal("error", err, context.DeadlineExceeded)
		time.Sleep(300 * time.Millisecond)
		r.equal("what is there", r.allow(r.holds+1000).Source, headgate.Lease)
		time.Sleep(time.Second)
	})
}

func TestNothingIsReturnedToAServerThatIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, quiet())
		r.lease()
		r.open()
		sent := r.client.Stats().Sent
		began := time.Now()
		if err := r.client.Close(context.Background()); err != nil {
			t.Error(err)
		}
		r.equal("sent", r.client.Stats().Sent, sent)
		r.equal("took", time.Since(began), time.Duration(0))
	})
}

func TestBucketsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, quiet())
		r.open()
		one := headgate.Limit{Units: 1, Period: time.Hour}
		ask := func(key int) bool {
			d, err := r.client.Allow(context.Background(), fmt.Sprint(key), one, 1)
			r.equal("error", err, nil)
			return d.Allowed
		}
		for i := range 10_000 {
			r.equal("first", ask(i), true)
		}
		r.equal("the first key again", ask(0), false)
		r.equal("another key", ask(10_000), true) // puts out the second
		r.equal("the first key", ask(0), false)
		r.equal("the second key", ask(1), true)
	})
}

// TestProbesHaveJitter measures the first probe of 200 breakers.
func TestProbesHaveJitter(t *testing.T) {
	var least, most time.Duration = time.Hour, 0
	for range 200 {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, quiet())
			r.open()
			from := time.Now()
			r.set(0, func(name string, _ []any) (any, error) { return "PONG", nil })
			for r.client.Stats().Away {
				time.Sleep(time.Millisecond)
			}
			least, most = min(least, time.Since(from)), max(most, time.Since(from))
		})
	}
	if least < 400*time.Millisecond || least > 420*time.Millisecond || most < 580*time.Millisecond || most > 601*time.Millisecond {
		t.Errorf("the first probe comes after %v to %v", least, most)
	}
}

func TestChangesOfStateAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		r := newRig(t, headgate.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		r.open()
		for range 100 {
			r.allow(1)
		}
		time.Sleep(3 * time.Second)
		r.set(0, func(name string, _ []any) (any, error) {
			if name == "PING" {
				return "PONG", nil
			}
			return nil, nil
		})
		time.Sleep(3 * time.Second)
		synctest.Wait() // for the goroutine that writes the log
		lines := strings.Split(strings.TrimSpace(log.String()), "\n")
		if len(lines) != 2 || !strings.Contains(lines[0], "level=WARN") || !strings.Contains(lines[0], "command was not sent") ||
			!strings.Contains(lines[1], "level=INFO") {
			t.Errorf("the log: %s", log.String())
		}
		st := r.client.Stats()
		r.equal("opened", st.Opened, int64(1))
		r.equal("fallback", st.Fallback, int64(100))
		r.equal("denied by the fallback", st.FallbackDenied, int64(5))
		r.equal("failures", st.Failures, int64(5)) // probes are none
	})
}

// TestChargesAreNotRepeated has a server that goes away again as it is told of the outage.
func TestChargesAreNotRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, quiet())
		r.open()
		limit := headgate.PerMinute(60_000)
		for i := range 300 {
			_, err := r.client.Allow(context.Background(), fmt.Sprint("key", i), limit, 2)
			r.equal("error", err, nil)
		}
		charged := make(map[string]int)
		atOnce, most := 0, 0
		var mu sync.Mutex
		r.set(0, func(name string, args []any) (any, error) {
			if name == "PING" {
				return "PONG", nil
			}
			mu.Lock()
			atOnce++
			most = max(most, atOnce)
			charged[args[1].(string)]++
			n := len(charged)
			mu.Unlock()
			time.Sleep(5 * time.Millisecond)
			mu.Lock()
			atOnce--
			mu.Unlock()
			if n > 150 {
				return nil, errors.New("OOM x")
			}
			return nil, nil
		})
		time.Sleep(2 * time.Second) // opens again
		r.set(0, func(name string, args []any) (any, error) {
			if name == "PING" {
				return "PONG", nil
			}
			mu.Lock()
			charged[args[1].(string)]++
			mu.Unlock()
			return nil, nil
		})
		time.Sleep(5 * time.Second)
		r.equal("keys", len(charged), 300)
		for key, n := range charged {
			r.equal(key, n, 1)
		}
		if most > 100 {
			t.Errorf("%d charges at one time", most)
		}
	})
}

func TestBackstop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := headgate.NewBackstop(headgate.PerSecond(2))
		ask := func(address string) headgate.Decision { return b.Allow(netip.MustParseAddr(address)) }
		for range 20 {
			if !ask("2001:db8::1").Allowed {
				t.Fatal("less than ten times the limit")
			}
		}
		d := ask("2001:db8::ffff")
		if d.Allowed || d.Source != headgate.Backstopped || d.Degraded || d.RetryAfter != 50*time.Millisecond || d.Limit != 20 {
			t.Errorf("%+v", d)
		}
		if !ask("2001:db8:0:1::1").Allowed || !ask("192.0.2.1").Allowed {
			t.Error("others have buckets of their own")
		}
		time.Sleep(50 * time.Millisecond)
		if !ask("2001:db8::1").Allowed || ask("2001:db8::1").Allowed {
			t.Error("it refills")
		}
	})
}

// TestFlapping has many callers of a server that comes and goes, for the race detector.
func TestFlapping(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, quiet())
		began := time.Now()
		r.set(time.Millisecond, func(name string, args []any) (any, error) {
			if time.Since(began)%time.Second > 600*time.Millisecond {
				return nil, headgate.ErrNotSent
			}
			if name == "PING" {
				return "PONG", nil
			}
			return nil, nil
		})
		var callers sync.WaitGroup
		for i := range 20 {
			callers.Go(func() {
				ctx := context.Background()
				for j := range 300 {
					limit := perSecond
					limit.NoLease = (i+j)%2 == 0
					key := fmt.Sprint("key", (i+j)%6)
					var err error
					switch j % 5 {
					case 0:
						_, err = r.client.All(ctx, []headgate.KeyLimit{{Key: key, Limit: limit, Cost: 1}, {Key: "all", Limit: perSecond, Cost: 1}})
					case 1:
						_, err = r.client.Wait(ctx, key, limit, 1, 10*time.Millisecond)
					default:
						_, err = r.client.Allow(ctx, key, limit, 1)
					}
					r.equal("error", err, nil)
					time.Sleep(7 * time.Millisecond)
				}
			})
		}
		callers.Wait()
		if st := r.client.Stats(); st.Opened == 0 || st.ChargedBack == 0 || st.Local == 0 {
			t.Errorf("%+v", st)
		}
	})
}

// TestMistakesCarryADecision has a server that answers with an error of the caller.
func TestMistakesCarryADecision(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		r := newRig(t, headgate.Options{Logger: slog.New(slog.NewTextHandler(&log, nil)), MaxLeases: -1})
		r.set(0, func(string, []any) (any, error) { return nil, errors.New("WRONGTYPE x") })
		ctx := context.Background()
		limit := headgate.Limit{Units: 10, Period: time.Hour}
		for _, allowed := range []bool{true, true, false} { // a fifth
			d, err := r.client.Peek(ctx, "k", limit, 1)
			r.equal("error of a peek", fmt.Sprint(err), "WRONGTYPE x")
			r.equal("peek", d.Allowed, allowed)
			d, err = r.client.Allow(ctx, "k", limit, 1)
			r.equal("error", fmt.Sprint(err), "WRONGTYPE x")
			r.equal("source", d.Source, headgate.Fallback)
			r.equal("allowed", d.Allowed, allowed)
			d, err = r.client.Despite(d, err)
			r.equal("error, despite it", err, nil)
			r.equal("decision, despite it", d.Allowed, allowed)
			d, err = r.client.Check(ctx, headgate.Policy{Name: "p", Limit: limit}, headgate.Attributes{"user": "eve"}, 1)
			r.equal("error of a check", fmt.Sprint(err), "WRONGTYPE x")
			r.equal("check", d.Allowed, allowed)
		}
		_, err := r.client.Refund(ctx, "k", limit, 1)
		r.equal("error of a refund", fmt.Sprint(err), "WRONGTYPE x")
		st := r.client.Stats()
		r.equal("mistakes", st.Mistakes, int64(10))
		r.equal("failures", st.Failures, int64(0))
		for range 100 { // 100 s
			time.Sleep(time.Second)
			_, _ = r.client.Despite(r.client.Allow(ctx, "k", limit, 1))
		}
		r.equal("lines", strings.Count(log.String(), "level=ERROR"), 2)
		r.set(0, nil)
		_, err = r.client.Allow(ctx, "k", limit, 1)
		r.equal("error", err, nil)
		synctest.Wait()
		r.equal("charged", r.client.Stats().ChargedBack, int64(0))
		_, err = r.client.Despite(headgate.Decision{}, context.Canceled)
		r.equal("another error", err, context.Canceled)
	})
}
