package native

import (
	"time"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/resp"
)

// Call is one call of a known script. Who makes it fills it in; it may be used
// again.
type Call struct {
	// Keys and Args are KEYS and ARGV: views that die with the call.
	Keys, Args [][]byte
	Now        int64 // engine time, Unix ns: what the clock of the script says
	Sess       *engine.Session
	W          *resp.Writer
	// InExec: the session holds the keys already.
	InExec bool

	// Err is an error of the engine because of which the script was not run.
	Err error

	// odd: the call is not one that the handler is made for.
	odd bool

	text   [64]byte // scratch
	fields [][]byte // scratch
}

const (
	// undoBytes bounds what a call may have to take back.
	undoBytes = 64 << 10
	// maxHeld is how many keys a call may have that holds them: it runs on a
	// loop. The Lua may take its time.
	maxHeld = 64
)

// open begins a visit to the value of a key, by number from 0, or returns nil
// where the script gives up: the call is odd, or the key has a value of another
// kind, for one.
func (c *Call) open(key int, kind engine.Algorithm) *engine.Value {
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

// hold makes the visits that follow, to so many keys at least, one step, which
// release ends: it keeps what they have changed if done, and takes it back if
// not. It is false for an odd call, for one of many keys, and where the keys
// cannot be held, and nothing is to be released then.
func (c *Call) hold(keys int) bool {
	switch {
	case c.odd || len(c.Keys) < keys || len(c.Keys) > maxHeld:
		return false
	case !c.InExec:
		c.Sess.Hold(c.Keys)
	case !c.Sess.Holds(): // a transaction too large to hold its keys
		return false
	}
	c.Sess.BeginUndo(undoBytes)
	return true
}

func (c *Call) release(done bool) bool {
	if !done {
		c.Sess.Rollback(c.Now)
	}
	if c.InExec {
		c.Sess.KeepAll()
	} else {
		c.Sess.Unhold()
	}
	return done
}

// failed notes an error of the engine and is false: see Call.Err.
func (c *Call) failed(err error) bool {
	c.Err = err
	return false
}

// What PTTL and TTL say of a key that is absent, and of one that does not
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
