package native

import (
	"time"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/engine/algo"
)

// flexibleScripts are the scripts of rate-limiter-flexible. They have a counter that
// expires, and reply it with its time to live in ms.
var flexibleScripts = []Script{{
	Library: "rate-limiter-flexible", Instead: "INCREX key BYINT points EX seconds ENX",
	Counts:       true,
	SHAs:         []string{"a1de965f42e177aa339706bd580f049065eca79a"},
	Fingerprints: []string{"3ac1335c3ad88b703b9edc56048fcf8e"},
	run:          flexibleIncrement,
}}

// flexibleIncrement adds points to a counter, which expires some seconds after its first
// points. If the counter has no time to live, it gets one.
func flexibleIncrement(c *Call) bool {
	points := c.integer(0)
	at := c.after(c.integer(1), time.Second)
	v := c.open(0, algo.Counter)
	if v == nil {
		return false
	}
	defer v.Close()
	consumed, ok := c.add(v, points)
	if !ok {
		return false
	}
	if v.Deadline() == engine.NoExpiry {
		v.SetDeadline(at)
	}
	c.pair(consumed, c.pttl(v))
	return true
}
