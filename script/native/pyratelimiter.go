package native

import (
	"strconv"

	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/engine/packed"
)

// pyrateScripts are the scripts of pyrate-limiter. They have a sorted set of recent
// calls, which is checked against several limits.
var pyrateScripts = []Script{
	{
		Library: "pyrate-limiter put 4.4", Instead: movingInstead,
		SHAs:         []string{"be8167afc95f25615961866ad639b736828f12b5"},
		Fingerprints: []string{"0891857390fd3daf49183af32d7bcb8c"},
		run:          pyratePut,
	},
	{
		Library: "pyrate-limiter put 3.2", Instead: movingInstead,
		SHAs:         []string{"12a3befaf96dc1cd0dc2c2af0160972b6981b685"},
		Fingerprints: []string{"f5cada88b0d7a0226ea8d97c3bf76aaf"},
		run:          pyratePut,
	},
}

// pyrateName is the longest name of an item, in bytes.
const pyrateName = 64 - 20

// pyrateLimits is the index of the first argument with a limit. Each limit is a length
// and a number of units.
const pyrateLimits = 4

// pyratePut records units of an item if all limits have room for them. If not, it replies
// which limit has no room.
func pyratePut(c *Call) bool {
	now, units, name, rates := c.whole(0), c.whole(1), c.arg(2), c.whole(3)
	c.expect(units >= 0 && units <= maxMoments && len(name) <= pyrateName)
	c.expect(rates >= 0 && rates <= int64(len(c.Args)-pyrateLimits)/2)
	v := c.open(0, algo.SortedSet)
	if v == nil {
		return false
	}
	defer v.Close()
	z := packed.NewSortedSet(v)
	for i := range rates {
		at := pyrateLimits + 2*int(i)
		length, limit := c.whole(at), c.whole(at+1)
		if c.odd {
			return false
		}
		count := 0
		if v.Exists() {
			count = max(0, z.Below(float64(now), true)-z.Below(float64(now-length), false))
		}
		if limit-int64(count) < units {
			c.W.Int(i)
			return true
		}
	}
	if units > 0 && !c.putItems(&z, name, float64(now), units) {
		return false
	}
	c.W.Int(-1)
	return true
}

// putItems adds one member for each unit.
func (c *Call) putItems(z *packed.SortedSet, name []byte, score float64, units int64) bool {
	if units > 1 {
		if err := z.Reserve(int(units), int(units)*(len(name)+len("256"))); err != nil {
			return c.failed(err)
		}
		defer z.Settle()
	}
	member := append(c.text[:0], name...)
	for i := range units {
		member = strconv.AppendInt(member[:len(name)], i+1, 10)
		if _, err := z.Put(member, score); err != nil {
			return c.failed(err)
		}
	}
	return true
}
