// Package demo makes simulated traffic for `headgate demo`: policies, and callers with
// patterns that a person recognises.
package demo

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// policies is a file of policies.
//
//go:embed policies.yaml
var policies string

// earlier is a policy as it was before the file, so that its history has something to
// compare.
const earlier = `require: [customer]
limits:
  customer: {by: customer, rate: 2/s burst 5}
`

const (
	// tick is how often calls are sent, in one pipeline.
	tick = 50 * time.Millisecond
	// mostCalls bounds the calls of a tick, so the traffic stays below 500 calls per second.
	mostCalls = 25
	// pause is the wait after the server did not answer.
	pause = time.Second
)

// caller is a simulated caller, or a group of callers that act alike.
type caller struct {
	// rate returns the calls per second, at a time since the start.
	rate func(at time.Duration) float64
	// call returns the arguments of the next call.
	call func() []any
	due  float64 // calls that have to be made
}

// steady is the rate of a caller that never changes it.
func steady(rate float64) func(time.Duration) float64 {
	return func(time.Duration) float64 { return rate }
}

// eachMinute is the rate of a caller that does nothing except at the beginning of each
// minute, which is 10 s after the start for the first time.
func eachMinute(rate float64, lasts time.Duration) func(time.Duration) float64 {
	return func(at time.Duration) float64 {
		if (at+50*time.Second)%time.Minute < lasts {
			return rate
		}
		return 0
	}
}

// callers returns the callers of the demo.
func callers() (all []*caller) {
	add := func(rate func(time.Duration) float64, call func() []any) {
		all = append(all, &caller{rate: rate, call: call})
	}
	api := func(customer, tier string, rate func(time.Duration) float64) {
		add(rate, func() []any { return []any{"RL.CHECK", "api", "customer", customer, "tier", tier} })
	}
	// Steady customers, who stay within their limits.
	for i, name := range []string{"anna", "ben", "carla", "dan", "eva", "finn", "gina", "hugo"} {
		api(name, "free", steady(1+float64(i)/4))
	}
	for i, name := range []string{"acme", "globex", "initech", "umbrella"} {
		api(name, "pro", steady(15-2*float64(i)))
	}
	// A noisy neighbour, who calls six times as often as allowed.
	api("scraper", "free", steady(30))
	// A customer who imports a batch each minute.
	api("nightly-import", "pro", eachMinute(150, 3*time.Second))

	// People who log in, and somebody who tries stolen passwords.
	login := func(user, ip string) []any { return []any{"RL.CHECK", "login", "user", user, "ip", ip} }
	add(steady(1), func() []any {
		n := rand.IntN(200)
		return login(fmt.Sprintf("user%d", n), fmt.Sprintf("198.51.100.%d", n))
	})
	add(steady(12), func() []any { return login(fmt.Sprintf("user%d", rand.IntN(5000)), "203.0.113.66") })

	// Teams that use a language model. A call costs its tokens.
	team := func(name string, rate float64, tokens int) {
		add(steady(rate), func() []any { return []any{"RL.CHECK", "tokens", "team", name, "tokens", tokens/2 + rand.IntN(tokens)} })
	}
	team("search", 0.5, 600)
	team("chat", 1, 400)
	team("agents", 2, 1500)
	return all
}

// calls returns the calls that are due after a further time of took, in random order.
func calls(all []*caller, at, took time.Duration) (list [][]any) {
	for _, c := range all {
		c.due += c.rate(at) * took.Seconds() * 2 * rand.Float64() // on average the rate
		for ; c.due >= 1; c.due-- {
			list = append(list, c.call())
		}
	}
	rand.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	return list[:min(len(list), mostCalls)]
}

// Load loads the policies of the demo into the server at an address.
func Load(ctx context.Context, addr string) error {
	c := client(addr)
	defer c.Close()
	if err := c.Do(ctx, "RL.POLICY", "SET", "api", earlier).Err(); err != nil {
		return fmt.Errorf("set a policy: %w", err)
	}
	if err := c.Do(ctx, "RL.POLICY", "LOAD", policies).Err(); err != nil {
		return fmt.Errorf("load the policies: %w", err)
	}
	return nil
}

// Traffic calls the server at an address until ctx is done.
func Traffic(ctx context.Context, addr string) {
	c := client(addr)
	defer c.Close()
	all, start, last := callers(), time.Now(), time.Now()
	t := time.NewTicker(tick)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		now := time.Now()
		took := min(now.Sub(last), 2*tick) // calls that are late are not made up for
		last = now
		_, err := c.Pipelined(ctx, func(p redis.Pipeliner) error {
			for _, call := range calls(all, now.Sub(start), took) {
				p.Do(ctx, call...)
			}
			return nil
		})
		// An error that the server answers is part of the show, for example after somebody
		// has deleted a policy.
		if answered := redis.Error(nil); err != nil && !errors.As(err, &answered) {
			select {
			case <-ctx.Done():
				return
			case <-time.After(pause):
			}
		}
	}
}

// client returns a client with one connection.
func client(addr string) *redis.Client {
	return redis.NewClient(&redis.Options{
		Addr: addr, PoolSize: 1, MaxRetries: -1, ContextTimeoutEnabled: true, ClientName: "headgate-demo",
		// Otherwise the client begins with commands that Headgate answers with errors.
		DisableIdentity: true, MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
}
