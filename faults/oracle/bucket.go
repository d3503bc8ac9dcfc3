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
// later does no harm unless the bucket is full and would lose it. So units are taken at the end of their calls.
// Whenever the bucket is full, one is also taken for the call that ends first. If any schedule serves all units, this
// one does. A unit whose call ends while the bucket is empty is one that no bucket had.
func bucketExcess(limit, period, extra int64, calls []history.Call) int64 {
	b := newBucket(limit, period, extra)
	for i := range calls {
		c := &calls[i]
		if !counts(c) {
			continue
		}
		b.advance(c.Start)
		heap.Push(&b.open, claim{c.End, int64(c.Cost)})
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

// claim is a number of units to be taken until end.
type claim struct{ end, units int64 }

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
	missed        func(claim) // told of what no bucket had; may be nil
}

// advance takes units for the open claims until the time to.
func (b *bucket) advance(to int64) {
	for len(b.open) > 0 {
		first := b.open[0].end
		missing := (b.capacity*b.period - b.level) / b.limit
		full := b.now + missing - missing/(clockSlack+1)
		next := min(first, full)
		if next > to || next == to && first > to {
			// What begins at this time may end before the open claims do.
			b.fill(to)
			return
		}
		b.fill(next)
		if next < first {
			b.take(1)
			continue
		}
		if !b.take(b.open[0].units) {
			b.excess += b.open[0].units
			if b.missed != nil {
				b.missed(b.open[0])
			}
			heap.Pop(&b.open)
		}
	}
	if to != math.MaxInt64 {
		b.fill(to)
	}
}

// take gives up to n units to the claim that ends first, and reports whether it has all it needs.
func (b *bucket) take(n int64) bool {
	n = min(n, b.open[0].units, b.level/b.period)
	b.level -= n * b.period
	b.open[0].units -= n
	if b.open[0].units > 0 {
		return false
	}
	heap.Pop(&b.open)
	return true
}

// fill lets time pass.
func (b *bucket) fill(to int64) {
	d := to - b.now
	if d <= 0 {
		return
	}
	b.now = to
	full := b.capacity * b.period
	d += d/clockSlack + 1
	if d >= (full-b.level)/b.limit+1 {
		b.level = full
		return
	}
	b.level += d * b.limit
}
