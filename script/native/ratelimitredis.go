package native

import (
	"github.com/headgate-io/headgate/engine/algo"
)

const countsOneWindow = "INCREX key PX milliseconds ENX"

// rateLimitRedisScripts are the scripts of rate-limit-redis, the store of
// express-rate-limit: a counter of a window.
var rateLimitRedisScripts = []Script{
	{
		Library: "rate-limit-redis increment 3", Instead: countsOneWindow,
		SHAs:         []string{"3f424a504987d231baa2e19159bb5def8ad32f87"},
		Counts:       true,
		Fingerprints: []string{"22d0efa829e5679fd3a9a3dbbdae9e9f"},
		run:          rateLimitIncrement,
	},
	{
		Library: "rate-limit-redis increment 4.2.1", Instead: countsOneWindow,
		SHAs:         []string{"b829ec02dca78a148dfc75dd3c86f488ed007c68"},
		Fingerprints: []string{"cea4220c7454ce8ab38cdc7bc8322142"},
		run:          rateLimitIncrement,
	},
	{
		Library: "rate-limit-redis increment 4.2.3", Instead: countsOneWindow,
		SHAs:         []string{"81dbecea94d2d10514719b20ed51faf711529d9d"},
		Fingerprints: []string{"b0e40e2993ae2f5caec6eac1cc20b2f2"},
		run: func(c *Call) bool {
			return c.rateLimitCount(1, string(c.arg(0)) == "1")
		},
	},
	{
		Library: "rate-limit-redis increment 6", Instead: countsOneWindow,
		SHAs:         []string{"895b92e1712734e1b464999be23953485475357b"},
		Fingerprints: []string{"051bc0ac757fd07b9de51181dcf5b0cc"},
		run:          func(c *Call) bool { return c.rateLimitCount(0, false) },
	},
	{
		Library:      "rate-limit-redis get",
		SHAs:         []string{"6aeb97ed6086dcdeafdc6fda3999a0d0e38ec96a"},
		Counts:       true,
		Fingerprints: []string{"97c6f835bbf3a40aa80fd71ad7543ccf"},
		Reads:        true, run: rateLimitGet,
	},
}

// rateLimitIncrement counts a call. A window begins if none is open, or if the call asks
// for it.
func rateLimitIncrement(c *Call) bool {
	reset := string(c.arg(0)) == "1"
	ms, at := c.window(1)
	v := c.open(0, algo.Counter)
	if v == nil {
		return false
	}
	defer v.Close()
	hits, ok := c.add(v, 1)
	if !ok {
		return false
	}
	left := c.pttl(v)
	if left <= 0 || reset {
		v.SetDeadline(at)
		left = ms
	}
	c.pair(hits, left)
	return true
}

// rateLimitCount does the same as rateLimitIncrement for later versions. If there is no
// window, counting begins at 1, and the old value of the key is ignored. length is the
// index of the argument with the window's length.
func (c *Call) rateLimitCount(length int, reset bool) bool {
	ms, at := c.window(length)
	v := c.open(0, algo.Counter)
	if v == nil {
		return false
	}
	defer v.Close()
	left := c.pttl(v)
	if left <= 0 {
		if !c.start(v, 1, at) {
			return false
		}
		c.pair(1, ms)
		return true
	}
	hits, ok := c.add(v, 1)
	if !ok {
		return false
	}
	if reset {
		v.SetDeadline(at)
		left = ms
	}
	c.pair(hits, left)
	return true
}

// rateLimitGet replies the text of the counter, and the remaining time of its window.
func rateLimitGet(c *Call) bool {
	v := c.open(0, algo.Counter)
	if v == nil {
		return false
	}
	c.W.Array(2)
	if v.Exists() {
		c.W.Bulk(v.Bytes())
	} else {
		c.W.Null()
	}
	c.W.Int(c.pttl(v))
	v.Close()
	return true
}
