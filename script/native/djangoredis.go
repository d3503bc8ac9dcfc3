package native

import (
	"github.com/headgate-io/headgate/engine/algo"
)

// djangoScripts are the scripts of django-redis, the cache of django-ratelimit.
var djangoScripts = []Script{
	{
		Library: "django-redis incr", Instead: "INCRBY key delta", Counts: true,
		SHAs:         []string{"f4a7da3e5d8ea3b46642af08427151cae0190400"},
		Fingerprints: []string{"d3b867183dd258cf5cb0d8a857250166"},
		run:          func(c *Call) bool { return c.djangoIncrement(true) },
	},
	{
		Library: "django-redis incr without check", Instead: "INCRBY key delta", Counts: true,
		SHAs:         []string{"4d15273b16b10c15e1d9202cbe93c959ab7d250b"},
		Fingerprints: []string{"afaa7e33417ca3e82ef34f31815e6ef4"},
		run:          func(c *Call) bool { return c.djangoIncrement(false) },
	},
}

// djangoIncrement adds to a counter. With checks, the counter must exist.
func (c *Call) djangoIncrement(checks bool) bool {
	delta := c.whole(0)
	v := c.open(0, algo.Counter)
	if v == nil {
		return false
	}
	defer v.Close()
	if checks && !v.Exists() {
		c.W.Null()
		return true
	}
	sum, ok := c.add(v, delta)
	if ok {
		c.W.Int(sum)
	}
	return ok
}
