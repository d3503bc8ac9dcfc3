package native

import (
	"math/bits"
	"time"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/engine/algo"
)

// fastifyScripts are the scripts of @fastify/rate-limit. They use a counter of a window.
// Each refused call may start the window again, or double it.
var fastifyScripts = []Script{
	{
		Library: "@fastify/rate-limit 8", Instead: countsOneWindow,
		SHAs:         []string{"3f481dd9e75a7c63c2facb091af19e1ab17f2cc7"},
		Counts:       true,
		Fingerprints: []string{"42a81d612a94d734a28dbf659ebec864"},
		run:          func(c *Call) bool { return c.fastifyCount(fastify{bans: true}, c.arg(3), nil) },
	},
	{
		Library: "@fastify/rate-limit 10.0", Instead: countsOneWindow,
		SHAs:         []string{"f80d0c65a05e27559602a2b43fbe989df31fc5f6"},
		Counts:       true,
		Fingerprints: []string{"e1bdae158c09b0e77456006abbe22402"},
		run:          func(c *Call) bool { return c.fastifyCount(fastify{}, c.arg(2), nil) },
	},
	{
		Library: "@fastify/rate-limit 10.2", Instead: countsOneWindow,
		SHAs:         []string{"b72d57bf75a045b8d6f72ca5b553e356583723f0"},
		Counts:       true,
		Fingerprints: []string{"3663b30bdbc2a9b966ea8ebab1a2908e"},
		run:          func(c *Call) bool { return c.fastifyCount(fastify{}, c.arg(2), c.arg(3)) },
	},
	{
		Library: "@fastify/rate-limit", Instead: countsOneWindow,
		SHAs:         []string{"b8a19d47785922bb04e7a9fdb49e90d89be1b8af"},
		Counts:       true,
		Fingerprints: []string{"891dab7f31d8db627c2dfc2510006d23"},
		run:          func(c *Call) bool { return c.fastifyCount(fastify{byCount: true}, c.arg(2), c.arg(3)) },
	},
	{
		Library:      "@fastify/rate-limit read",
		SHAs:         []string{"4c7d9ef62b3d4f8efd8d11d5d2fd1a56b1e723bc"},
		Counts:       true,
		Fingerprints: []string{"11162ead2b59b313aa0c3e9efaec59f0"},
		Reads:        true, run: func(c *Call) bool { return c.peek(true) },
	},
}

// fastify is what differs between versions.
type fastify struct {
	// bans is set if the third argument is the number of excess calls after which a
	// caller is banned.
	bans bool
	// byCount is set if a count of 1 begins a window, not a counter that does not expire.
	byCount bool
}

// fastifyCount counts a call. The first arguments are the window's length in ms and the
// limit.
func (c *Call) fastifyCount(version fastify, again, doubles []byte) bool {
	ms, at := c.window(0)
	limit, ban := c.whole(1), int64(-1)
	if version.bans {
		ban = c.whole(2)
	}
	v := c.open(0, algo.Counter)
	if v == nil {
		return false
	}
	defer v.Close()
	n, ok := v.Integer()
	if v.Exists() && !ok {
		return false
	}
	next := n + 1
	begins := v.Deadline() == engine.NoExpiry
	if version.byCount {
		begins = next == 1
	}
	over := next > limit
	switch {
	case begins, over && string(again) == "true":
	case over && string(doubles) == "true":
		ms = doubled(ms, next-limit-1)
		if at = c.after(ms, time.Millisecond); c.odd {
			return false
		}
	default:
		at = 0
	}
	count, ok := c.add(v, 1)
	if !ok {
		return false
	}
	if at != 0 {
		v.SetDeadline(at)
	} else {
		ms = c.pttl(v)
	}
	if !version.bans {
		c.pair(count, ms)
		return true
	}
	c.W.Array(3)
	c.W.Int(count)
	c.W.Int(ms)
	if ban != -1 && count-limit > ban {
		c.W.Int(1)
	} else {
		c.W.Null()
	}
	return true
}

// doubled returns n doubled times times, or -1 if that is too long for a time to live.
func doubled(n, times int64) int64 {
	if int64(bits.Len64(uint64(n)))+times > int64(bits.Len64(maxSpan)) {
		return -1
	}
	return n << times
}
