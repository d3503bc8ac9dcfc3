package native

import (
	"github.com/headgate-io/headgate/engine/algo"
)

// nestLabScripts are the scripts of @nest-lab/throttler-storage-redis and of
// nestjs-throttler-storage-redis. They use a counter of a window, and a key that blocks
// when the counter exceeds its limit.
var nestLabScripts = []Script{{
	Library: "@nest-lab/throttler-storage-redis", Instead: countsOneWindow,
	SHAs:         []string{"f1e0da9c495676ab6904eb80db1f2811d5347f58"},
	Fingerprints: []string{"7d8b5a05fdab14a009245f123bf02df5"},
	run:          nestLabIncrement,
}}

// nestLabIncrement counts a call. After the end of a block, counting begins at 1.
func nestLabIncrement(c *Call) bool {
	var n nestLab
	n.ms, n.at = c.window(1)
	n.limit = c.whole(2)
	n.blockMs, n.blockAt = c.window(3)
	return c.isolate(2) && c.finish(c.nestLabCount(&n))
}

// nestLab has the arguments of nestLabIncrement: the lengths of the window and of a
// block, in ms, and when they end if they begin now.
type nestLab struct{ ms, at, limit, blockMs, blockAt int64 }

func (c *Call) nestLabCount(n *nestLab) bool {
	v := c.open(0, algo.Counter)
	if v == nil {
		return false
	}
	hits, ok := c.add(v, 1)
	left := c.pttl(v)
	if ok && left <= 0 {
		v.SetDeadline(n.at)
		left = n.ms
	}
	v.Close()
	if !ok {
		return false
	}
	blocked, blockLeft, ok := c.nestLabBlock(n, hits)
	if !ok {
		return false
	}
	if blocked && blockLeft <= 0 {
		if v = c.open(0, algo.Counter); v == nil {
			return false
		}
		ok = c.start(v, 1, n.at)
		v.Close()
		if !ok {
			return false
		}
		hits, left, blocked = 1, n.ms, false
	}
	c.W.Array(4)
	c.W.Int(hits)
	c.W.Int(left)
	c.truth(blocked)
	c.W.Int(blockLeft)
	return true
}

// nestLabBlock returns whether a block is in force or begins now, and its remaining time
// in ms. It removes a block that would never end.
func (c *Call) nestLabBlock(n *nestLab, hits int64) (blocked bool, left int64, ok bool) {
	v := c.open(1, algo.Counter)
	if v == nil {
		return false, 0, false
	}
	defer v.Close()
	switch {
	case v.Exists():
		if left = c.pttl(v); left <= 0 {
			v.Delete()
		}
		return true, left, true
	case hits > n.limit:
		return true, n.blockMs, c.start(v, 1, n.blockAt)
	}
	return false, 0, true
}
