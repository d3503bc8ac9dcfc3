package native

import (
	"time"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/resp"
)

// Call is one call of a known script. Its maker fills it in, and may reuse it.
type Call struct {
	// Keys and Args are the script's KEYS and ARGV. They are views that are valid during
	// the call.
	Keys, Args [][]byte
	Now        int64 // engine time in Unix ns, which is the time that the script reads
	Sess       *engine.Session
	W          *resp.Writer

	// Err is an error of the engine; if it is set, the script did not run.
	Err error

	// odd is set if the handler cannot serve the call.
	odd  bool
	step engine.Step // see isolate

	text   [64]byte // scratch
	fields [][]byte // scratch
}

const (
	// undoBytes bounds the changes that a call may have to undo.
	undoBytes = 64 << 10
	// maxIsolated bounds the keys that a call isolates here, on an event loop. The Lua
	// may use more.
	maxIsolated = 64
)

// open begins a visit to the value of a key, by the key's number from 0. It returns nil if
// the script must give up, for example because the call is odd or the value is of another
// type.
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

// isolate makes the visits that follow one step, which finish ends. The call must have at
// least `keys` keys. For an odd call, or with too many keys, it returns false, and there is
// no step to end.
func (c *Call) isolate(keys int) bool {
	if c.odd || len(c.Keys) < keys || len(c.Keys) > maxIsolated {
		return false
	}
	c.step = c.Sess.Isolate(c.Now, c.Keys, undoBytes)
	return true
}

// finish ends the step. If done is set, it keeps the changes, unless they are too many
// for a step. Otherwise it undoes them.
func (c *Call) finish(done bool) bool {
	if done {
		return c.step.Commit() == nil
	}
	c.step.Rollback()
	return false
}

// failed records an error of the engine and returns false: see Call.Err.
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

// pttl returns the PTTL of a visited key, in ms.
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

// ttl returns the TTL of a visited key, in s.
func (c *Call) ttl(v *engine.Value) int64 {
	ms := c.pttl(v)
	if ms < 0 {
		return ms
	}
	return (ms + 500) / 1000
}
