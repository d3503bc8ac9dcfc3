package native

import (
	"time"

	"github.com/headgate-io/headgate/engine/algo"
)

// ululeScripts are the scripts of ulule/limiter: a counter of a window.
var ululeScripts = []Script{
	{
		Library: "ulule/limiter increment", Instead: "INCREX key BYINT count PX milliseconds ENX",
		SHAs:         []string{"f74233f556d3f99c50b61169cf8aa8d5deb63fb2"},
		Counts:       true,
		Fingerprints: []string{"993030496c10d577771d702bdf3212bd"},
		run:          ululeIncrement,
	},
	{
		Library:      "ulule/limiter peek",
		SHAs:         []string{"566f5c6a17e5fddb9a10bf389f754edd0d899c61"},
		Counts:       true,
		Fingerprints: []string{"cebbadbeca8fee99b0e0a0425a9a72a4"},
		Reads:        true, run: func(c *Call) bool { return c.peek(false) },
	},
}

// ululeIncrement adds to a counter, which expires some ms after its first addition.
func ululeIncrement(c *Call) bool {
	count, ms, at := c.whole(0), c.whole(1), int64(0)
	if ms > 0 {
		at = c.after(ms, time.Millisecond)
	}
	v := c.open(0, algo.Counter)
	if v == nil {
		return false
	}
	defer v.Close()
	sum, ok := c.add(v, count)
	switch {
	case !ok:
		return false
	case sum != count:
		ms = c.pttl(v)
	case at != 0:
		v.SetDeadline(at)
	}
	c.pair(sum, ms)
	return true
}
