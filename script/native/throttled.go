package native

import "time"

// throttledScripts are the scripts of throttled. The client decides by a GCRA and stores
// its result, unless somebody has changed the value since. If the key no longer exists, the
// Lua code raises an error.
var throttledScripts = []Script{{
	Library: "throttled compare and swap", Instead: bucketInstead,
	SHAs:         []string{"ebd682e30de074a6919bde872b507734c7c3ebe5"},
	Fingerprints: []string{"053e66cdb8552a3ff82256ad8fe9cfbb"},
	run:          func(c *Call) bool { return c.compareAndSwap(c.after(c.integer(2), time.Second), false) },
}}
