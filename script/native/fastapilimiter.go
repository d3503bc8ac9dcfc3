package native

import (
	"time"

	"github.com/headgate-io/headgate/engine"
)

// fastAPIScripts are those of fastapi-limiter.
var fastAPIScripts = []Script{{
	Library: "fastapi-limiter", Instead: countsOneWindow,
	SHAs:         []string{"a3f9e982197e9e887f6b5dcb7ec273863bb83aad"},
	Fingerprints: []string{"ef78f32d2b9caaeb1ff7e4a12b2ab122"},
	run:          fastAPICount,
}}

// fastAPICount counts a call up to the limit, and replies 0; above it tells how
// long the window still is, in ms.
func fastAPICount(c *Call) bool {
	if !c.has(1, 2) {
		return false
	}
	limit, ok1 := whole(c.Args[0])
	ms, ok2 := integer(c.Args[1])
	if !ok1 || !ok2 {
		return false
	}
	at, ok := c.after(ms, time.Millisecond)
	if !ok {
		return false
	}
	v := c.open(c.Keys[0], engine.Counter)
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
