package oracle

import (
	"container/heap"
	"math"

	"github.com/headgate-io/headgate/faults/history"
)

// bucketExcess returns how many units were certainly admitted beyond a token bucket of the given limit per period (ns),
// full at first. The bucket holds extra units more than the limit.
//
// Each admitted unit was taken at some time between the start and the end of its call. Keeping a unit in the bucket for
// later does no harm unless the bucket is full. So units are taken at the end of their calls. What would flow into a
// full bucket goes to the call that ends first, also as a part of a unit. If any schedule serves all units, this one
// does. A unit whose call ends while the bucket is empty is one that no bucket had.
func bucketExcess(limit, period, extra int64, calls []history.Call) int64 {
	b := newBucket(limit, period, extra)
	for i := range calls {
		c := &calls[i]
		if !counts(c) {
			continue
		}
		b.advance(c.Start)
		b.claim(c.End, int64(c.Cost))
	}
	b.advance(math.MaxInt64)
	return b.excess
}

// newBucket returns a full one.
func newBucket(limit, period, extra int64) bucket {
	b := bucket{limit: limit, period: period, capacity: limit + extra}
	b.level = b.capacity * period
	return b
}

// claim is a number of points to be taken until end.
type claim struct{ end, points int64 }

// claims is a heap by end.
type claims []claim

func (c claims) Len() int           { return len(c) }
func (c claims) Less(i, j int) bool { return c[i].end < c[j].end }
func (c claims) Swap(i, j int)      { c[i], c[j] = c[j], c[i] }
func (c *claims) Push(x any)        { *c = append(*c, x.(claim)) }
func (c *claims) Pop() any {
	old := *c
	x := old[len(old)-1]
	*c = old[:len(old)-1]
	return x
}

// bucket is a token bucket with exact arithmetic: a unit is period points, and each ns brings limit points.
type bucket struct {
	limit, period int64
	capacity      int64 // units
	level         int64 // points, at most capacity*period
	now           int64
	open          claims
	excess        int64
	missed        func(end, units int64) // told of what no bucket had; may be nil
}

// claim opens a claim of units that were taken between now and end.
func (b *bucket) claim(end, units int64) { heap.Push(&b.open, claim{end, units * b.period}) }

// advance takes points for the open claims until the time to. What begins at this time may end before the open claims do.
func (b *bucket) advance(to int64) {
	for len(b.open) > 0 && b.open[0].end < to {
		end := b.open[0].end
		b.fill(end)
		if len(b.open) == 0 || b.open[0].end != end {
			continue // fill has served it
		}
		c := heap.Pop(&b.open).(claim)
		if missing := c.points - b.level; missing > 0 {
			units := (missing + b.period - 1) / b.period
			b.excess += units
			if b.missed != nil {
				b.missed(end, units)
			}
			c.points = max(0, c.points-units*b.period)
		}
		b.level -= c.points
	}
	if to != math.MaxInt64 {
		b.fill(to)
	}
}

// fill lets time pass in which no claim begins or ends.
func (b *bucket) fill(to int64) {
	d := to - b.now
	if d <= 0 {
		return
	}
	b.now = to
	d += d/clockSlack + 1
	room := b.capacity*b.period - b.level
	if len(b.open) == 0 && d > room/b.limit {
		b.level += room
		return
	}
	over := d*b.limit - room
	b.level += min(room, room+over)
	for over > 0 && len(b.open) > 0 {
		c := &b.open[0]
		n := min(over, c.points)
		c.points -= n
		over -= n
		if c.points == 0 {
			heap.Pop(&b.open)
		}
	}
}
