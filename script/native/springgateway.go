package native

import (
	"math"
	"time"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/engine/algo"
)

const bucketInstead = "CL.THROTTLE key burst-1 rate period cost"

// springGatewayScripts are the scripts of Spring Cloud Gateway. They are a token bucket
// whose state is two keys: the tokens, and the second of the last refill.
var springGatewayScripts = []Script{
	{
		Library: "Spring Cloud Gateway 2", Instead: bucketInstead,
		SHAs:         []string{"eec77786d43c65f7fd568900b5d2b63b692318dc"},
		Fingerprints: []string{"de52d87cd675c64e98646529ed7aac05"},
		run:          func(c *Call) bool { return c.springGateway(springVersion{clients: true, always: true}) },
	},
	{
		Library: "Spring Cloud Gateway 3.0", Instead: bucketInstead,
		SHAs:         []string{"9d491aea731237273f4274f9ed9660b432b23791"},
		Fingerprints: []string{"685b908fb78e8c362c6e4176f3ebb213"},
		run:          func(c *Call) bool { return c.springGateway(springVersion{clients: true}) },
	},
	{
		Library: "Spring Cloud Gateway 3.1", Instead: bucketInstead,
		SHAs:         []string{"76a566c51f92d8f643d16e0ef0101663d5380dba"},
		Fingerprints: []string{"53db06b40182642da28337945bc6aa6f"},
		run:          func(c *Call) bool { return c.springGateway(springVersion{servers: true}) },
	},
	{
		Library: "Spring Cloud Gateway 4", Instead: bucketInstead,
		SHAs:         []string{"775635cca91092477cbcee85fd800accb6adc4b2"},
		Fingerprints: []string{"dc95a9f37512af44ee925590f46f48e7"},
		run:          func(c *Call) bool { return c.springGateway(springVersion{clients: true, servers: true}) },
	},
	{
		Library: "Spring Cloud Gateway", Instead: bucketInstead,
		SHAs:         []string{"0ad5736ed1c04aae6ec194376c784b89b8c08a7a"},
		Fingerprints: []string{"fb140a890e6ac1b68a8e7526361b657c"},
		run:          func(c *Call) bool { return c.springGateway(springVersion{clients: true, servers: true}) },
	},
}

// springVersion is what differs between versions: whose clock counts, and whether they
// store a bucket that will be full again in less than half a second. If both clients and
// servers are set, the client's time counts if the client sends one.
type springVersion struct{ clients, servers, always bool }

// springGateway takes tokens from a bucket if it has enough.
func (c *Call) springGateway(version springVersion) bool {
	rate, capacity, requested := c.number(0), c.number(1), c.number(3)
	now, sent := 0.0, false
	if version.clients {
		now, sent = number(c.arg(2))
	}
	if !sent {
		now = float64(c.Now / int64(time.Second))
	}
	c.expect((sent || version.servers) && finite(capacity/rate) && finite(requested) && finite(now))
	b := springBucket{rate: rate, capacity: capacity, now: now}
	// Nothing is stored that lives half a second at most.
	if life := math.Floor(capacity / rate * 2); life > 0 || version.always {
		c.expect(life <= maxSpan)
		b.at = c.after(int64(life), time.Second)
	}
	return c.isolate(2) && c.finish(c.springTake(&b, requested))
}

// springBucket is a bucket in a call.
type springBucket struct {
	rate, capacity, now float64
	at                  int64 // when it expires; 0 if it is not stored
}

func (c *Call) springTake(b *springBucket, requested float64) bool {
	tokens, ok1 := c.springNumber(0, b.capacity)
	filled, ok2 := c.springNumber(1, 0)
	if !ok1 || !ok2 {
		return false
	}
	// The conversion forces a rounding. Without it, a processor may add to a product that
	// is not rounded yet.
	tokens = min(b.capacity, tokens+float64(max(0, b.now-filled)*b.rate))
	allowed := tokens >= requested
	if allowed {
		tokens -= requested
	}
	if !exact(int64(tokens)) {
		return false
	}
	if b.at != 0 && !(c.springStore(0, tokens, b.at) && c.springStore(1, b.now, b.at)) {
		return false
	}
	c.pair(truth(allowed), int64(tokens))
	return true
}

// springNumber reads the number of a key. It returns missing for an absent key, or one
// without a number.
func (c *Call) springNumber(key int, missing float64) (f float64, ok bool) {
	v := c.open(key, algo.Counter)
	if v == nil {
		return 0, false
	}
	defer v.Close()
	if n, ok := v.Integer(); ok && exact(n) {
		return float64(n), true
	}
	if f, ok = number(v.Bytes()); !ok {
		return missing, true
	}
	return f, finite(f)
}

func (c *Call) springStore(key int, f float64, at int64) bool {
	text, ok := appendPassed(c.text[:0], f)
	if !ok {
		return false
	}
	if _, err := c.Sess.Set(c.Now, c.Keys[key], text, &engine.SetOptions{Deadline: at}); err != nil {
		return c.failed(err)
	}
	return true
}
