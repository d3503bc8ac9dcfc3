package native

import (
	"time"

	"github.com/headgate-io/headgate/engine/algo"
)

// fastAPIScripts are the scripts of fastapi-limiter.
var fastAPIScripts = []Script{{
	Library: "fastapi-limiter", Instead: countsOneWindow,
	SHAs:         []string{"a3f9e982197e9e887f6b5dcb7ec273863bb83aad"},
	Fingerprints: []string{"ef78f32d2b9caaeb1ff7e4a12b2ab122"},
	run:          fastAPICount,
}}

// fastAPICount counts a call up to the limit, and replies 0. Above the limit it replies
// the remaining time of the window, in ms.
func fastAPICount(c *Call) bool {
	limit := c.whole(0)
	at := c.after(c.integer(1), time.Millisecond)
	v := c.open(0, algo.Counter)
	if v == nil {
		return false
	}
	defer v.Close()
	count, ok := v.Integer()
	switch {
	case v.Exists() && (!ok || !exact(count)):
		return false
	case count > 0 && count+1 > limit:
		c.W.Int(c.pttl(v))
		return true
	case count > 0:
		_, ok = c.add(v, 1)
	default:
		ok = c.start(v, 1, at)
	}
	if ok {
		c.W.Int(0)
	}
	return ok
}
