package headgate_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	headgate "github.com/headgate-io/headgate/clients/go"
)

func TestRareKeysAskEachTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, headgate.Options{})
		for range 100 {
			time.Sleep(55 * time.Millisecond)
			r.equal("source", r.allow(1).Source, headgate.Server)
		}
		r.equal("calls", len(r.calls("RL.LIMIT")), 100)
		r.equal("leases", len(r.calls("RL.LEASE")), 0)
	})
}

func TestBusyKeysAreLeased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, headgate.Options{})
		admitted := int64(0)
		for range 4000 {
			time.Sleep(time.Millisecond)
			if r.allow(1).Allowed {
				admitted++
			}
		}
		r.equal("admitted", admitted, int64(4000))
		r.equal("plain calls", len(r.calls("RL.LIMIT")), 10)
		leases := r.calls("RL.LEASE")
		if len(leases) > 8 {
			t.Errorf("%d requests for 4000 calls", len(leases))
		}
		if want := number(leases[len(leases)-1], "WANT"); want < 1900 || want > 2100 {
			t.Errorf("1000 calls a second want %d units for 2 s", want)
		}
		for i, args := range leases {
			r.equal("SEQ", number(args, "SEQ"), int64(i+1))
		}
		st := r.client.Stats()
		r.equal("local", st.Local, int64(4000-11))
		r.equal("leases", st.Leases, int64(1))
	})
}

// TestCallersWaitTogether has callers come while a request is under way: the next request
// is for all of them.
func TestCallersWaitTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, headgate.Options{})
		r.lease()
		r.set(10*time.Millisecond, func(name string, args []any) (any, error) {
			return granted(number(args, "NEED"), 0, 2000, 0, 0), nil
		})
		var callers sync.WaitGroup
		big := func(cost int64) {
			callers.Go(func() {
				d := r.allow(cost)
				r.equal("allowed", d.Allowed, true)
				r.equal("source", d.Source, headgate.Server)
			})
			synctest.Wait()
		}
		for i := range int64(5) {
			big(5000 + i*1000)
		}
		callers.Wait()
		leases := r.calls("RL.LEASE")
		r.equal("requests", len(leases), 3)
		r.equal("the first one's need", number(leases[1], "NEED"), int64(5000))
		r.equal("the others' need", number(leases[2], "NEED"), int64(6000+7000+8000+9000))
	})
}

// TestNeedStaysOutOfTheBlock: what callers waited for cannot be spent once more.
func TestNeedStaysOutOfTheBlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, headgate.Options{})
		r.set(0, func(name string, args []any) (any, error) {
			if name == "RL.LEASE" {
				return granted(number(args, "NEED"), 3, 2000, 0, 0), nil
			}
			return nil, nil
		})
		r.lease()
		for range 3 {
			r.equal("source", r.allow(1).Source, headgate.Lease)
			synctest.Wait()
		}
		// The renewal at 40 % brought 3 more for each that was spent beyond.
		_ = r.client.Close(context.Background())
		returned := r.calls("RL.RETURN")
		units := int64(3 * len(r.calls("RL.LEASE")))
		r.equal("returned", number(returned[0], "HELD"), units-3)
	})
}

func TestSumIsDeniedButNotAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, headgate.Options{})
		r.lease()
		left := int64(25000)
		r.set(time.Millisecond, func(name string, args []any) (any, error) {
			if name != "RL.LEASE" {
				return nil, nil
			}
			need := number(args, "NEED")
			if need > left {
				return refused(left, 40, 0, 2000, 0, 0), nil
			}
			left -= need
			return ints(1, 1000, left, 0, 0, 0, need, 2000, 0, 0, 1), nil
		})
		var callers sync.WaitGroup
		var mu sync.Mutex
		var allowed, denied int
		for range 6 {
			callers.Go(func() {
				d := r.allow(10000)
				mu.Lock()
				defer mu.Unlock()
				if d.Allowed {
					allowed++
				} else {
					denied++
				}
			})
		}
		callers.Wait()
		r.equal("allowed", allowed, 2)
		r.equal("denied", denied, 4)
	})
}

func TestTimeoutEndsTheRefill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, headgate.Options{Timeout: 100 * time.Millisecond})
		r.set(0, func(name string, args []any) (any, error) {
			if name == "RL.LEASE" {
				return granted(number(args, "NEED"), 100, 2000, 1000, 1000), nil
			}
			return nil, nil
		})
		r.lease()
		// The next reply is late, by a Doer that does not heed its context. It would grant a lot.
		r.set(300*time.Millisecond, func(name string, args []any) (any, error) {
			return granted(0, 1e6, 2000, 1e6, 1000), nil
		})
		r.equal("source", r.allow(5000).Source, headgate.Fallback)
		time.Sleep(150 * time.Millisecond)
		r.set(0, func(string, []any) (any, error) { return nil, errors.New("ERR broken") })
		spent := int64(0)
		for range 2000 {
			d, err := r.client.Allow(context.Background(), "k", perSecond, 1)
			if err != nil {
				break
			}
			r.equal("source", d.Source, headgate.Lease)
			spent++
		}
		r.equal("units that were left", spent, int64(100))
	})
}

func TestRefillComesDueEvenly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, headgate.Options{})
		r.set(0, func(name string, args []any) (any, error) {
			if name == "RL.LEASE" { // nothing now, 100 within a second, less than was wanted
				return ints(1, 1000, 0, 0, 500, 0, number(args, "NEED"), 2000, 100, 1000, 1), nil
			}
			return nil, nil
		})
		r.lease()
		spent := 0
		spend := func() {
			for r.allow(1).Allowed {
				spent++
			}
		}
		spend()
		r.equal("at once", spent, 0)
		d := r.allow(1)
		r.equal("source", d.Source, headgate.Denied)
		if d.RetryAfter < 10*time.Millisecond || d.RetryAfter > 11*time.Millisecond {
			t.Errorf("the first unit is due in %v", d.RetryAfter)
		}
		time.Sleep(d.RetryAfter)
		spend()
		r.equal("after retry_after", spent, 1)
		time.Sleep(300*time.Millisecond - d.RetryAfter)
		spend()
		r.equal("after 300 ms", spent, 29)
		r.equal("requests", len(r.calls("RL.LEASE")), 1)
		time.Sleep(302 * time.Millisecond)
		r.allow(1)
		synctest.Wait()
		r.equal("requests after 60 %", len(r.calls("RL.LEASE")), 2)
	})
}

func TestNoLeaseAsksEachTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, headgate.Options{})
		r.leaseNothing()
		for range 1000 {
			time.Sleep(time.Millisecond)
			r.equal("source", r.allow(1).Source, headgate.Server)
		}
		if n := len(r.calls("RL.LEASE")); n < 2 || n > 20 {
			t.Errorf("%d attempts in a second", n)
		}
	})
}

func TestIdleKeysGiveBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, headgate.Options{})
		r.lease()
		time.Sleep(2 * time.Second)
		synctest.Wait()
		returned := r.calls("RL.RETURN")
		r.equal("returned", len(returned), 1)
		r.equal("units", number(returned[0], "HELD"), number(r.calls("RL.LEASE")[0], "WANT"))
		r.equal("id", returned[0][3], r.calls("RL.LEASE")[0][5])
		// Its next lease is another block.
		r.allow(1)
		for range 10 {
			r.allow(1)
		}
		if leases := r.calls("RL.LEASE"); len(leases) != 2 || leases[1][5] == leases[0][5] {
			t.Errorf("the second lease: %v", leases)
		}
	})
}

func TestCloseGivesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, headgate.Options{})
		r.lease()
		for range 50 {
			r.allow(1)
		}
		r.set(10*time.Millisecond, nil)
		if err := r.client.Close(context.Background()); err != nil {
			t.Fatal(err)
		}
		returned := r.calls("RL.RETURN")
		r.equal("returned", len(returned), 1)
		r.equal("units", number(returned[0], "HELD"), r.holds-50)
		_, err := r.client.Allow(context.Background(), "k", perSecond, 1)
		r.equal("error", err, headgate.ErrClosed)
	})
}

// TestCloseWaitsForTheReply has a request under way: its units go back, too.
func TestCloseWaitsForTheReply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, headgate.Options{})
		for range 10 {
			r.allow(1)
		}
		r.set(10*time.Millisecond, nil)
		go r.allow(1)
		synctest.Wait()
		if err := r.client.Close(context.Background()); err != nil {
			t.Fatal(err)
		}
		r.equal("returned", number(r.calls("RL.RETURN")[0], "HELD"), number(r.calls("RL.LEASE")[0], "WANT"))
	})
}

func TestDenialsAreRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, headgate.Options{})
		deny := func(retry int64) {
			r.set(0, func(name string, _ []any) (any, error) { return ints(0, 1000, 0, retry, 5000, 0), nil })
		}
		deny(300)
		r.equal("source", r.allow(2).Source, headgate.Server)
		time.Sleep(299 * time.Millisecond)
		d := r.allow(2)
		r.equal("source before retry_after", d.Source, headgate.Denied)
		r.equal("retry after", d.RetryAfter, time.Millisecond)
		r.equal("reset after", d.ResetAfter, 5*time.Second-299*time.Millisecond)
		r.equal("source of a smaller call", r.allow(1).Source, headgate.Server)
		time.Sleep(time.Second)
		deny(60_000)
		r.equal("source after retry_after", r.allow(1).Source, headgate.Server)
		time.Sleep(999 * time.Millisecond)
		d = r.allow(1)
		r.equal("source within a second", d.Source, headgate.Denied)
		r.equal("retry after", d.RetryAfter, 60*time.Second-999*time.Millisecond)
		time.Sleep(time.Millisecond)
		r.equal("source after a second", r.allow(1).Source, headgate.Server)
		r.equal("denied", r.client.Stats().Denied, int64(2))
	})
}

func TestDeadlineCountsFromTheRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, headgate.Options{Timeout: 500 * time.Millisecond})
		for range 10 {
			r.allow(1)
		}
		r.set(100*time.Millisecond, func(name string, args []any) (any, error) {
			if name == "RL.LEASE" && number(args, "SEQ") == 1 {
				return granted(number(args, "NEED"), 1000, 1000, 0, 0), nil
			}
			return nil, errors.New("ERR gone")
		})
		r.allow(1)
		for range 449 { // until 998 ms after the request
			time.Sleep(2 * time.Millisecond)
			r.equal("source", r.allow(1).Source, headgate.Lease)
		}
		time.Sleep(time.Millisecond)
		if _, err := r.client.Allow(context.Background(), "k", perSecond, 1); err == nil {
			t.Error("a unit was spent after 999 ms of a lease of 1000 ms")
		}
	})
}

func TestErrorsFallBackToPlainCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, headgate.Options{})
		r.set(0, func(name string, _ []any) (any, error) {
			if name == "RL.LEASE" {
				return nil, errors.New("ERR unknown command 'RL.LEASE'")
			}
			return nil, nil
		})
		for range 1000 {
			time.Sleep(time.Millisecond)
			r.equal("allowed", r.allow(1).Allowed, true)
		}
		if n := len(r.calls("RL.LEASE")); n > 5 {
			t.Errorf("%d attempts in a second", n)
		}
	})
}

func TestCallerLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, headgate.Options{Timeout: 500 * time.Millisecond})
		r.lease()
		r.set(200*time.Millisecond, func(name string, args []any) (any, error) {
			return granted(number(args, "NEED"), 0, 2000, 0, 0), nil
		})
		ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
		defer cancel()
		_, err := r.client.Allow(ctx, "k", perSecond, 5000)
		r.equal("error", err, context.DeadlineExceeded)
		time.Sleep(time.Second)
		// Its units are not for others.
		_ = r.client.Close(context.Background())
		for _, args := range r.calls("RL.RETURN") {
			r.equal("returned", number(args, "HELD"), r.holds)
		}
	})
}

func TestAnotherLimitIsAnotherLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, headgate.Options{})
		r.lease()
		d, err := r.client.Allow(context.Background(), "k", headgate.PerSecond(10), 1)
		r.equal("error", err, nil)
		r.equal("source", d.Source, headgate.Server)
		synctest.Wait()
		r.equal("returned", len(r.calls("RL.RETURN")), 1)
	})
}

func TestLeasesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, headgate.Options{MaxLeases: 100})
		busy := func(prefix string, keys int) {
			for i := range keys {
				for range 12 {
					_, err := r.client.Allow(context.Background(), fmt.Sprint(prefix, i), perSecond, 1)
					r.equal("error", err, nil)
				}
			}
		}
		busy("a", 150)
		r.equal("leases", r.client.Stats().Leases, int64(100))
		busy("b", 1000) // none is put out for these: all were used just now
		r.equal("leases", r.client.Stats().Leases, int64(100))
		r.equal("returned", len(r.calls("RL.RETURN")), 0)
		time.Sleep(200 * time.Millisecond)
		busy("c", 50)
		synctest.Wait()
		r.equal("leases", r.client.Stats().Leases, int64(100))
		if n := len(r.calls("RL.RETURN")); n < 10 || n > 50 {
			t.Errorf("%d of the least recently used gave way to 50", n)
		}
	})
}

func TestAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, headgate.Options{})
		r.lease()
		both := []headgate.KeyLimit{{Key: "k", Limit: perSecond, Cost: 10}, {Key: "rare", Limit: headgate.PerMinute(60), Cost: 2}}
		d, err := r.client.All(context.Background(), both)
		r.equal("error", err, nil)
		r.equal("allowed", d.Allowed, true)
		r.equal("source", d.Source, headgate.Server)
		plain := r.calls("RL.LIMIT")
		r.equal("the command", fmt.Sprint(plain[len(plain)-1]), "[RL.LIMIT rare 60 60s COST 2]")

		r.set(0, func(name string, args []any) (any, error) {
			if name == "RL.LIMIT" {
				return ints(0, 60, 0, 1000, 60000, 0), nil
			}
			return nil, nil
		})
		d, err = r.client.All(context.Background(), both)
		r.equal("error", err, nil)
		r.equal("allowed", d.Allowed, false)

		r.set(0, func(name string, args []any) (any, error) {
			if name == "RL.LIMIT" {
				return nil, errors.New("ERR broken")
			}
			return nil, nil
		})
		_, err = r.client.All(context.Background(), both)
		r.equal("fails", err != nil, true)

		d, err = r.client.All(context.Background(), both[:1])
		r.equal("error", err, nil)
		r.equal("source", d.Source, headgate.Lease)
		_, err = r.client.All(context.Background(), []headgate.KeyLimit{both[0], both[0]})
		r.equal("a key twice fails", err != nil, true)

		_ = r.client.Close(context.Background())
		r.equal("held at the end", number(r.calls("RL.RETURN")[0], "HELD"), r.holds-10-10)
	})
}

func TestAllInOneCommand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, headgate.Options{})
		_, err := r.client.All(context.Background(), []headgate.KeyLimit{
			{Key: "a", Limit: headgate.Limit{Units: 5, Period: time.Second, Algorithm: headgate.Sliding}, Cost: 1},
			{Key: "b", Limit: headgate.Limit{Units: 5, Period: time.Hour, Burst: 7}, Cost: 3},
		})
		r.equal("error", err, nil)
		r.equal("the command", fmt.Sprint(r.calls("RL.LIMIT")[0]), "[RL.LIMIT a 5 1s ALGORITHM sliding AND b 5 3600s BURST 7 COST 3]")
	})
}

// TestAllLendsAcrossARenewal: units that an All may put back count as held.
func TestAllLendsAcrossARenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, headgate.Options{Timeout: 500 * time.Millisecond})
		r.lease()
		r.set(0, func(name string, args []any) (any, error) {
			switch name {
			case "RL.LIMIT":
				time.Sleep(100 * time.Millisecond)
				return ints(0, 60, 0, 1000, 60000, 0), nil
			case "RL.LEASE":
				return granted(number(args, "NEED"), 0, 2000, 0, 0), nil
			}
			return nil, nil
		})
		done := make(chan struct{})
		go func() {
			_, _ = r.client.All(context.Background(), []headgate.KeyLimit{
				{Key: "k", Limit: perSecond, Cost: r.holds * 3 / 4}, {Key: "rare", Limit: headgate.PerMinute(60), Cost: 2},
			})
			close(done)
		}()
		synctest.Wait()
		leases := r.calls("RL.LEASE") // renewed, since a quarter was left
		r.equal("requests", len(leases), 2)
		r.equal("held", number(leases[1], "HELD"), r.holds)
		<-done
		_ = r.client.Close(context.Background())
		r.equal("held at the end", number(r.calls("RL.RETURN")[0], "HELD"), r.holds)
	})
}

func TestReplies(t *testing.T) {
	for name, reply := range map[string]any{
		"an array": ints(0, 10, 3, 1500, 2500, 7, 99),
		"a map":    map[string]any{"allowed": int64(0), "limit": int64(10), "remaining": int64(3), "retry_after_ms": int64(1500), "reset_after_ms": int64(2500), "delay_ms": int64(7)},
		"go-redis": map[any]any{"allowed": int64(0), "limit": int64(10), "remaining": int64(3), "retry_after_ms": int64(1500), "reset_after_ms": int64(2500), "delay_ms": int64(7)},
	} {
		c := headgate.New(headgate.DoerFunc(func(context.Context, ...any) (any, error) { return reply, nil }), headgate.Options{MaxLeases: -1})
		d, err := c.Allow(context.Background(), "k", perSecond, 1)
		want := headgate.Decision{Limit: 10, Remaining: 3, RetryAfter: 1500 * time.Millisecond, ResetAfter: 2500 * time.Millisecond, Delay: 7 * time.Millisecond}
		if err != nil || !reflect.DeepEqual(d, want) {
			t.Errorf("%s: %+v, %v", name, d, err)
		}
	}
	for _, reply := range []any{nil, "OK", int64(1), ints(1, 2), []any{"a", "b", "c", "d", "e", "f"}, map[string]any{}} {
		c := headgate.New(headgate.DoerFunc(func(context.Context, ...any) (any, error) { return reply, nil }), headgate.Options{MaxLeases: -1})
		if d, err := c.Allow(context.Background(), "k", perSecond, 1); err != nil || d.Source != headgate.Fallback {
			t.Errorf("%v is a decision: %+v, %v", reply, d, err)
		}
	}
}

// A process that gets no block keeps its id: with another id, the server would count
// another holder.
func TestAnIDWithoutABlockStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, headgate.Options{})
		r.leaseNothing()
		for range 200 {
			time.Sleep(30 * time.Millisecond) // and the client looks after its keys every 100
			_, _ = r.client.Allow(context.Background(), "k", perSecond, 1)
		}
		ids := map[any]bool{}
		for _, args := range r.calls("RL.LEASE") {
			ids[args[slices.Index(args, any("ID"))+1]] = true
		}
		r.equal("ids", len(ids), 1)
	})
}
