package native

import "time"

// throttledScripts are the scripts of throttled. The client decides by a GCRA, and stores
// its time unless somebody else has changed it since. If the key is gone, the Lua raises
// an error.
var throttledScripts = []Script{{
	Library: "throttled compare and swap", Instead: bucketInstead,
	SHAs:         []string{"ebd682e30de074a6919bde872b507734c7c3ebe5"},
	Fingerprints: []string{"053e66cdb8552a3ff82256ad8fe9cfbb"},
	run:          func(c *Call) bool { return c.compareAndSwap(c.after(c.integer(2), time.Second), false) },
}}
