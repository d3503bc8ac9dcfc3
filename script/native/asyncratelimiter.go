package native

import (
	"math"
	"strconv"

	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/engine/packed"
)

// asyncScripts are the scripts of async-ratelimiter, which koa-ratelimit uses. They keep
// the times of calls, in µs of the caller's clock, in a sorted set.
var asyncScripts = []Script{
	{
		Library: "async-ratelimiter 1.5", Instead: movingInstead,
		SHAs:         []string{"51d8e63a380bf7a715e9cc96b2fa6ad9e2e8788b"},
		Fingerprints: []string{"41934e1a444c12744650a521eaf8953c"},
		run:          func(c *Call) bool { return c.asyncTake(false) },
	},
	{
		Library: "async-ratelimiter", Instead: movingInstead,
		SHAs:         []string{"ad00ff6f099013f2aea94ed48c220cbf616c6a07"},
		Fingerprints: []string{"a43fd3558a613325d6fc98a8c9535b8c"},
		run:          func(c *Call) bool { return c.asyncTake(string(c.arg(3)) == "1") },
	},
}

// maxMoved bounds the members or elements that a call may visit or remove here: more
// would take too long for an event loop.
const maxMoved = 2048

// asyncTake records the time of a call, unless it only peeks, if there are fewer than the
// limit.
func (c *Call) asyncTake(peek bool) bool {
	now := c.whole(0)
	length, at := c.window(1)
	limit := c.whole(2)
	c.expect(length <= now)
	v := c.open(0, algo.SortedSet)
	if v == nil {
		return false
	}
	defer v.Close()
	z := packed.NewSortedSet(v)
	from, to := 0, 0
	if v.Exists() {
		from, to = z.Below(0, false), z.Below(float64(now-length), true)
	}
	if to-from > maxMoved || to < from {
		return false
	}
	count, oldest := int64(z.Len()-(to-from)), float64(now)
	if count > 0 {
		first := to
		if from > 0 {
			first = 0
		}
		member, _ := z.At(first)
		var ok bool
		if oldest, ok = number(member); !ok || !finite(oldest) {
			return false
		}
	}
	reset := math.Floor((oldest + float64(length)) / 1000)
	if !exact(int64(reset)) {
		return false
	}
	remaining := limit - count
	// Add first, since that may fail. The new member comes after the removed part.
	if remaining > 0 && !peek && !c.note(&z, now, from, to) {
		return false
	}
	switch {
	case from == to:
	case to-from == z.Len():
		v.Delete()
	default:
		z.RemoveRange(from, to)
	}
	if remaining > 0 && !peek {
		v.SetDeadline(at)
	}
	c.W.Array(3)
	c.W.Int(max(remaining, 0))
	c.W.Int(int64(reset))
	c.W.Int(limit)
	return true
}

// note adds a time to a sorted set from which a range of ranks before it will be removed.
func (c *Call) note(z *packed.SortedSet, now int64, from, to int) bool {
	member := strconv.AppendInt(c.text[:0], now, 10)
	if from != to {
		if score, ok := z.Score(member); ok && score != float64(now) {
			return false // it might be in the range
		}
	}
	if _, err := z.Put(member, float64(now)); err != nil {
		return c.failed(err)
	}
	return true
}
