package browser

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// policies are those of a busy server, each with its versions.
var policies = []struct{ name, text string }{
	{"shop/checkout", "{limits: {user: {by: user, rate: 10/m}, tenant: {by: tenant, rate: 300/m}}}"},
	{"api", "{limits: {key: {by: key, rate: 50/s burst 100}, day: {by: key, rate: 100000/d, mode: shadow}}}"},
	{"login", "{limits: {ip: {by: ip, rate: 5/m, algorithm: log}, user: {by: user, rate: 3/m, penalty: {after: 5, block: 10m}}}}"},
	{"export", "{limits: {running: {by: tenant, concurrent: 3}, hour: {by: tenant, rate: 40/h, mode: shadow}}}"},
	{"shop/checkout", "{limits: {user: {by: user, rate: 20/m}, tenant: {by: tenant, rate: 300/m}}}"},
	{"routes/edge", "{else: deny, attributes: {user: {header: X-User}}, match: {'/v1/login': login, '/v1/*': api}}"},
}

// prepare makes the policies, and overrides.
func prepare(t testing.TB, c *redis.Client) {
	t.Helper()
	for _, p := range policies {
		do(t, c, "RL.POLICY", "SET", p.name, p.text)
	}
	do(t, c, "RL.OVERRIDE", "SET", "shop/checkout", "LIMIT", "user", "RATE", "200/m", "UNTIL", "2099-01-01T00:00:00Z", "user", "buyer-7")
	for i := range 8 {
		do(t, c, "RL.OVERRIDE", "SET", "api", "LIMIT", "key", "RATE", fmt.Sprintf("%d/s", 100*(i+1)), "key", fmt.Sprintf("partner-%d", i))
	}
}

// load sends calls of many callers until the test ends. Errors do not matter: a node may be
// down.
func load(t testing.TB, c *redis.Client) {
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	t.Cleanup(func() {
		cancel()
		done.Wait()
	})
	random := rand.New(rand.NewPCG(1, 2))
	done.Go(func() {
		every := time.NewTicker(20 * time.Millisecond)
		defer every.Stop()
		for i := 0; ; i++ {
			pipe := c.Pipeline()
			for range 6 + int(5*math.Sin(float64(i)/150)) {
				user := int(random.ExpFloat64() * 9)
				pipe.Do(ctx, "RL.CHECK", "shop/checkout", "user", fmt.Sprintf("buyer-%d", user), "tenant", fmt.Sprintf("store-%d", user%4))
				pipe.Do(ctx, "RL.CHECK", "api", "key", fmt.Sprintf("partner-%d", user))
			}
			pipe.Do(ctx, "RL.CHECK", "login", "ip", fmt.Sprintf("203.0.113.%d", random.IntN(12)), "user", fmt.Sprintf("user-%d", random.IntN(30)))
			pipe.Do(ctx, "RL.CHECK", "export", "tenant", fmt.Sprintf("store-%d", random.IntN(4)))
			pipe.Do(ctx, "RL.LIMIT", fmt.Sprintf("mail:%d", random.IntN(6)), 5, "1m")
			_, _ = pipe.Exec(ctx)
			select {
			case <-ctx.Done():
				return
			case <-every.C:
			}
		}
	})
}
