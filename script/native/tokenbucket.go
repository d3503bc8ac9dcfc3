package native

import (
	"math"
	"time"

	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/engine/packed"
)

// tokenBucketScripts keep a bucket in two fields of a hash: the tokens that it had, and
// when.
var tokenBucketScripts = []Script{{
	Library: "token bucket in HMGET and HSET", Instead: "CL.THROTTLE key capacity-1 rate 1 cost", forms: tokenBucketForms,
}}

// tokenBucket is what differs between these scripts.
type tokenBucket struct {
	capacity, rate, now int // indexes of the arguments
	cost                int // index of the argument, -1 if it is one token
	tokens, at          []byte
	// together is set if the script cannot work with a bucket that has tokens and no
	// time.
	together bool
	forward  bool  // time that runs backwards counts as none
	scale    int64 // the divisor of elapsed time; 0 if there is none
	early    bool  // the division comes first
	ttl      int64 // in s, 0 if it is the time to fill the bucket
	times    int64 // factor of that time
	denied   bool  // the state is also stored when a call is denied
	left     bool  // the reply also has the tokens that are left
}

// tokenBucketForms returns the texts.
func tokenBucketForms() (list []form) {
	const keep = "redis.call('hset', KEYS[1], 9010, t, 9011, NOW) redis.call('expire', KEYS[1], TTL)"
	denied := func(b *tokenBucket) { b.denied = true }
	deniedLeft := func(b *tokenBucket) { b.denied, b.left = true, true }
	expand("local d = redis.call('hmget', KEYS[1], 9010, 9011) INIT local e = ELAPSED t = math.min(CAPACITY, t + e * RATE) TAKE", tokenBucket{}, []choice[tokenBucket]{
		{"INIT", []option[tokenBucket]{
			{"local t = tonumber(d[1]) or CAPACITY local s = tonumber(d[2]) or NOW", nil},
			{"local t = tonumber(d[1]) local s = tonumber(d[2]) if t == nil then t = CAPACITY s = NOW end", func(b *tokenBucket) { b.together = true }},
			{"local t = tonumber(d[1]) local s = tonumber(d[2]) if t == nil then t = CAPACITY end if s == nil then s = NOW end", nil},
		}},
		{"ELAPSED", []option[tokenBucket]{
			{"NOW - s", nil},
			{"math.max(0, NOW - s)", func(b *tokenBucket) { b.forward = true }},
			{"(NOW - s) / 9009", nil},
			{"math.max(0, NOW - s) / 9009", func(b *tokenBucket) { b.forward = true }},
			{"math.max(0, (NOW - s) / 9009)", func(b *tokenBucket) { b.forward, b.early = true, true }},
		}},
		{"TAKE", []option[tokenBucket]{
			{"local o = 0 if t >= COST then t = t - COST o = 1 end " + keep + " return o", denied},
			{"local o = 0 if t >= COST then t = t - COST o = 1 end " + keep + " return {o, t}", deniedLeft},
			{"local o = 0 if t >= COST then t = t - COST o = 1 end " + keep + " return {o, math.floor(t)}", deniedLeft},
			{"if t >= COST then t = t - COST " + keep + " return 1 end return 0", nil},
			{"if t >= COST then t = t - COST " + keep + " return 1 else return 0 end", nil},
			{"if t < COST then return 0 end t = t - COST " + keep + " return 1", nil},
		}},
		{"TTL", []option[tokenBucket]{
			{"9008", nil},
			{"math.ceil(CAPACITY / RATE)", func(b *tokenBucket) { b.times = 1 }},
			{"math.ceil(CAPACITY / RATE) * 9008", func(b *tokenBucket) { b.times = -1 }},
		}},
		{"COST", []option[tokenBucket]{{"1", nil}, {"tonumber(ARGV[9005])", nil}}},
		{"CAPACITY", []option[tokenBucket]{{"tonumber(ARGV[9001])", nil}}},
		{"RATE", []option[tokenBucket]{{"tonumber(ARGV[9004])", nil}}},
		{"NOW", []option[tokenBucket]{{"tonumber(ARGV[9003])", nil}}},
	}, func(text string, b tokenBucket) {
		list = append(list, form{text: text, bind: b.bind})
	})
	return list
}

func (b tokenBucket) bind(p *params) func(c *Call) bool {
	b.capacity, b.rate, b.now, b.cost = p.arg(argLimit), p.arg(argRate), p.arg(argNow), p.arg(argCost)
	tokens, ok1 := p.text(constField)
	at, ok2 := p.text(constOther)
	if b.capacity < 0 || b.rate < 0 || b.now < 0 || p.has(argCost) && b.cost < 0 || !ok1 || !ok2 || tokens == at {
		return nil
	}
	b.tokens, b.at = []byte(tokens), []byte(at)
	if p.has(constScale) && (!p.whole(constScale, &b.scale) || b.scale <= 0) {
		return nil
	}
	if p.has(constTTL) && (!p.whole(constTTL, &b.ttl) || b.ttl <= 0) {
		return nil
	}
	if b.times < 0 {
		b.times, b.ttl = b.ttl, 0
	}
	return b.run
}

// bucketArguments has the arguments of a call.
type bucketArguments struct{ capacity, rate, now, cost float64 }

func (b *tokenBucket) arguments(c *Call) bucketArguments {
	a := bucketArguments{capacity: c.plainNumber(b.capacity), rate: c.plainNumber(b.rate), now: c.plainNumber(b.now), cost: 1}
	if b.cost >= 0 {
		a.cost = c.plainNumber(b.cost)
	}
	c.expect(a.rate > 0)
	return a
}

// deadline returns when a bucket expires that is stored now.
func (b *tokenBucket) deadline(c *Call, a *bucketArguments) (at int64) {
	n := b.ttl
	if n == 0 {
		full := math.Ceil(a.capacity/a.rate) * float64(b.times)
		n = int64(full)
		c.expect(float64(n) == full)
	}
	return c.after(n, time.Second)
}

// fill returns the content of the bucket at the time of a call. ok is false if the value
// is not a bucket.
func (b *tokenBucket) fill(h *packed.Hash, a *bucketArguments) (tokens float64, ok bool) {
	tokens, since := a.capacity, a.now
	stored, found := h.Get(b.tokens)
	if found {
		if tokens, ok = plainNumber(stored); !ok {
			return 0, false
		}
	}
	// Without tokens, a time has no meaning for scripts that begin both together.
	if at, foundTime := h.Get(b.at); foundTime && (found || !b.together) {
		if since, ok = plainNumber(at); !ok {
			return 0, false
		}
	} else if found && !foundTime && b.together {
		return 0, false
	}
	elapsed := a.now - since
	if b.early {
		elapsed /= float64(b.scale)
	}
	if b.forward && elapsed < 0 {
		elapsed = 0
	}
	if b.scale > 0 && !b.early {
		elapsed /= float64(b.scale)
	}
	return min(a.capacity, tokens+float64(elapsed*a.rate)), true
}

func (b tokenBucket) run(c *Call) bool {
	a := b.arguments(c)
	expires := b.deadline(c, &a)
	v := c.open(0, algo.Hash)
	if v == nil {
		return false
	}
	defer v.Close()
	h := packed.NewHash(v)
	tokens, ok := b.fill(&h, &a)
	if !ok || tokens < 0 {
		return false
	}
	passed := tokens >= a.cost
	if passed {
		tokens -= a.cost
	}
	if passed || b.denied {
		text, ok1 := appendPassed(c.text[:0], tokens)
		at, ok2 := appendPassed(text[len(text):], a.now)
		if !ok1 || !ok2 {
			return false
		}
		c.fields = append(c.fields[:0], b.tokens, text, b.at, at)
		if _, err := h.SetAll(c.fields); err != nil {
			return c.failed(err)
		}
		v.SetDeadline(expires)
	}
	if b.left {
		c.pair(truth(passed), int64(tokens))
	} else {
		c.W.Int(truth(passed))
	}
	return true
}
