package headgate

import (
	"math/bits"
	"time"
)

// instant is the time since the client began, by the monotonic clock.
type instant = time.Duration

// block is what the client holds of one key: units to spend until a deadline. The methods
// keep the rules by which the client never spends more than the server has set aside:
//
//   - deadline counts from before the request was sent, refill from when its reply came.
//     Both are shorter, or slower, by 1/1000: so much may two clocks differ.
//   - Nothing becomes due between a request and its reply. If the reply does not come, the
//     old refill does not go on.
//   - Units that callers waited for never enter the block.
type block struct {
	stock    int64 // units to spend now
	lent     int64 // taken by All, which may put them back
	lapses   int   // how often a deadline has passed: what was lent before is gone
	deadline instant

	refill   int64 // units that become due evenly from began, for a time
	taken    int64 // of refill, the units that are part of stock
	began    instant
	lasts    time.Duration
	size     int64 // stock and refill, when the reply came
	short    bool  // the server granted less than was wanted
	left     int64 // of the limit at the server, when the reply came
	answered instant
}

// settle brings what is due into the stock, and forgets the block at its deadline.
func (b *block) settle(now instant) {
	if now >= b.deadline {
		if b.stock|b.lent|b.refill != 0 {
			b.stock, b.lent, b.refill, b.taken = 0, 0, 0, 0
			b.lapses++
		}
		return
	}
	if b.refill > b.taken && now > b.began {
		due := b.refill
		if past := now - b.began; past < b.lasts {
			hi, lo := bits.Mul64(uint64(b.refill), uint64(past))
			q, _ := bits.Div64(hi, lo, uint64(b.lasts))
			due = int64(q)
		}
		if due > b.taken {
			b.stock += due - b.taken
			b.taken = due
		}
	}
}

// spend takes units of a settled block. It reports whether there were enough.
func (b *block) spend(units int64) bool {
	if b.stock < units {
		return false
	}
	b.stock -= units
	return true
}

// held ends the refill of a settled block, and returns what the client tells the server
// that it has. The units of an All count: it puts them back, or has spent them.
func (b *block) held() int64 {
	b.refill, b.taken = 0, 0
	return b.stock + b.lent
}

// grant puts the reply to a request into a settled block. need is what callers waited
// for, and want what the request asked for beside what was held.
func (b *block) grant(g *grant, sent, now instant, need, want int64) {
	units := g.granted
	if g.Allowed {
		units -= need
	}
	b.short = units+g.refill < want
	b.stock += max(units, 0)
	b.deadline = sent + g.ttl - g.ttl/1000
	b.refill, b.taken = g.refill, 0
	b.began, b.lasts = now, g.refillFor+g.refillFor/1000+1
	b.size = b.stock + b.refill
	b.left, b.answered = g.Remaining, now
}

// The parts of a refill's time after which a block is renewed, in percent: a refill that
// is short is not asked for more often than it has to be.
const (
	renewAt      = 50
	renewShortAt = 60
	// renewShortBy is when it is renewed in any case. Before, the client waits until it
	// loses less than a quarter of the unit that is becoming due.
	renewShortBy = 80
)

// low reports whether it is time to renew a settled block.
func (b *block) low(now instant) bool {
	if b.refill == 0 {
		return b.stock*10 <= b.size*4 && !b.exhausted()
	}
	past := now - b.began
	if b.short {
		return past >= b.lasts*renewShortBy/100 || past >= b.lasts*renewShortAt/100 && b.part(past) <= b.lasts/4
	}
	return past >= b.lasts*renewAt/100 || (b.stock+b.refill-b.taken)*10 <= b.size*4
}

// part returns the part of a unit that is becoming due, in b.lasts-ths.
func (b *block) part(past time.Duration) time.Duration {
	hi, lo := bits.Mul64(uint64(b.refill), uint64(past))
	_, rem := bits.Div64(hi, lo, uint64(b.lasts))
	return time.Duration(rem)
}

// exhausted reports whether the limit had nothing left when the server granted less than
// was wanted.
func (b *block) exhausted() bool { return b.short && b.left == 0 }

// due returns how long it takes until a settled block without enough units has them, or
// is renewed. It is 0 if the server must be asked now: the limit had enough left, or what
// is known of it is too old.
func (b *block) due(now instant, units int64) time.Duration {
	if !b.short || b.left >= units || b.refill == 0 || now-b.answered >= memory {
		return 0
	}
	until := b.began + b.lasts*renewShortAt/100
	if units <= b.stock+b.refill-b.taken {
		hi, lo := bits.Mul64(uint64(b.taken+units-b.stock), uint64(b.lasts))
		if q, _ := bits.Div64(hi, lo, uint64(b.refill)); b.began+time.Duration(q) < until {
			until = b.began + time.Duration(q) + 1
		}
	}
	return max(until-now, 0)
}
