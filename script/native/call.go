package native

import (
	"time"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/resp"
)

// Call is one call of a known script. Its maker fills it in; it may be used
// again.
type Call struct {
	// Keys and Args are KEYS and ARGV: views that die with the call.
	Keys, Args [][]byte
	Now        int64 // engine time, Unix ns: what the clock of the script says
	Sess       *engine.Session
	W          *resp.Writer

	// Err is an error of the engine because of which the script was not run.
	Err error

	// odd: the handler cannot serve the call.
	odd  bool
	step engine.Step // see isolate

	text   [64]byte // scratch
	fields [][]byte // scratch
}

const (
	// undoBytes bounds what a call may have to take back.
	undoBytes = 64 << 10
	// maxIsolated bounds the keys of a call that isolates them here: it runs on a
	// loop. The Lua may take its time.
	maxIsolated = 64
)

// open begins a visit to the value of a key, by number from 0. It returns nil
// where the script gives up, for example because the call is odd, or the key
// has a value of another kind.
func (c *Call) open(key int, kind algo.Algorithm) *engine.Value {
	if c.odd || key >= len(c.Keys) {
		return nil
	}
	v, err := c.Sess.Open(c.Now, c.Keys[key], kind)
	if err != nil {
		c.Err = err
		return nil
	}
	return v
}

// isolate makes the visits that follow, to at least so many keys, one step, which
// finish ends. It is false for an odd call and for one of many keys; then there is no
// step to end.
func (c *Call) isolate(keys int) bool {
	if c.odd || len(c.Keys) < keys || len(c.Keys) > maxIsolated {
		return false
	}
	c.step = c.Sess.Isolate(c.Now, c.Keys, undoBytes)
	return true
}

// finish ends the step. If done, it keeps the changes of the visits, unless they are
// too much for a step; otherwise it takes them back.
func (c *Call) finish(done bool) bool {
	if done {
		return c.step.Commit() == nil
	}
	c.step.Rollback()
	return false
}

// failed notes an error of the engine and is false: see Call.Err.
func (c *Call) failed(err error) bool {
	c.Err = err
	return false
}

// What PTTL and TTL return for an absent key, and for a key that does not
// expire.
const (
	ttlMissing    = -2
	ttlPersistent = -1
)

// pttl is what PTTL says of a visited key, in ms.
func (c *Call) pttl(v *engine.Value) int64 {
	switch {
	case !v.Exists():
		return ttlMissing
	case v.Deadline() == engine.NoExpiry:
		return ttlPersistent
	}
	left := v.Deadline() - c.Now
	return (left + int64(time.Millisecond) - 1) / int64(time.Millisecond)
}

// ttl is what TTL says of a visited key, in s.
func (c *Call) ttl(v *engine.Value) int64 {
	ms := c.pttl(v)
	if ms < 0 {
		return ms
	}
	return (ms + 500) / 1000
}
