package headgate_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	headgate "github.com/headgate-io/headgate/clients/go"
)

// verdict is a reply to RL.CHECK.
func verdict(allowed, remaining, retry int64) []any {
	return append(ints(allowed, 1000, remaining, retry, 10, 0).([]any), "user", "ok", "", int64(1), int64(1), []any{}, int64(0))
}

// A policy is leased by its name and attributes, if it says so and callers ask often.
func TestPoliciesAreLeased(t *testing.T) {
	for _, leased := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, headgate.Options{})
			ttl := int64(2000)
			r.set(0, func(name string, args []any) (any, error) {
				switch {
				case name == "RL.CHECK":
					return verdict(1, 999, 0), nil
				case name == "RL.LEASE" && ttl == 0:
					return granted(number(args, "NEED"), 0, 0, 0, 0), nil
				}
				return nil, nil
			})
			policy := headgate.Policy{Name: "api", Leased: leased}
			check := func(attributes headgate.Attributes, id string) headgate.Decision {
				d, err := r.client.CheckID(context.Background(), policy, attributes, 1, id)
				if err != nil || !d.Allowed {
					t.Errorf("%+v, %v", d, err)
				}
				return d
			}
			eve := headgate.Attributes{"user": "eve", "org": "acme"}
			for range 1000 {
				time.Sleep(time.Millisecond)
				check(eve, "")
			}
			if !leased {
				r.equal("checks", len(r.calls("RL.CHECK")), 1000)
				return
			}
			r.equal("checks", len(r.calls("RL.CHECK")), 10)
			first := r.calls("RL.LEASE")[0]
			if want := []any{"RL.LEASE", "POLICY", "api", "org", "acme", "user", "eve", "ID"}; !slices.Equal(first[:len(want)], want) {
				t.Errorf("%v", first)
			}
			r.equal("source", check(eve, "").Source, headgate.Lease)
			// Other attributes, and calls with a name, are no part of the block.
			r.equal("another user", check(headgate.Attributes{"user": "bob"}, "").Source, headgate.Server)
			r.equal("with an id", check(eve, "call1").Source, headgate.Server)
			// When the server says that it cannot be leased, each call is asked for.
			ttl = 0
			before := len(r.calls("RL.LEASE"))
			for range 3000 {
				time.Sleep(time.Millisecond)
				check(eve, "")
			}
			if n := len(r.calls("RL.LEASE")) - before; n > 60 {
				t.Errorf("%d requests for leases in 3 s", n)
			}
			given := r.calls("RL.RETURN")
			r.equal("returns", len(given), 1)
			if want := []any{"RL.RETURN", "POLICY", "api", "org", "acme", "user", "eve", "ID"}; !slices.Equal(given[0][:len(want)], want) {
				t.Errorf("%v", given[0])
			}
		})
	}
}

// What a leased policy's server does not answer, the failure policy decides. The share of
// the limit that stands for it is by the holders of the lease.
func TestLeasedPolicyWithoutAServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, headgate.Options{})
		var away atomic.Bool
		r.set(0, func(name string, args []any) (any, error) {
			switch {
			case away.Load():
				return nil, errors.New("OOM")
			case name == "RL.CHECK":
				return verdict(1, 999, 0), nil
			}
			return nil, nil
		})
		policy := headgate.Policy{Name: "api", Leased: true, Limit: headgate.PerSecond(100)}
		for range 20 {
			_, err := r.client.Check(context.Background(), policy, nil, 1)
			r.equal("error", err, nil)
		}
		away.Store(true)
		time.Sleep(3 * time.Second) // its block has lapsed
		admitted := 0
		for range 300 {
			d, err := r.client.Check(context.Background(), policy, nil, 1)
			if err != nil || d.Source != headgate.Fallback && d.Allowed {
				t.Fatalf("%+v, %v", d, err)
			}
			if d.Allowed {
				admitted++
			}
		}
		r.equal("admitted", admitted, 100)
	})
}
