package native

import (
	"time"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/resp"
	"github.com/headgate-io/headgate/script/lua"
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

	text   [64]byte // scratch
	fields [][]byte // scratch
}

// undoBytes bounds what a call may have to take back.
const undoBytes = 64 << 10

// has reports whether the call has at least so many keys and arguments: Lua
// ignores what it does not ask for.
func (c *Call) has(keys, args int) bool { return len(c.Keys) >= keys && len(c.Args) >= args }

// open begins a visit to a key's value, or returns nil where the script gives
// up: the key has a value of another kind, for one.
func (c *Call) open(key []byte, kind engine.Algorithm) *engine.Value {
	v, err := c.Sess.Open(c.Now, key, kind)
	if err != nil {
		c.Err = err
		return nil
	}
	return v
}

// hold makes the visits that follow one step, which release ends: it keeps what
// they have changed if done, and takes it back if not. It is false where the
// keys cannot be held, and nothing is to be released then.
func (c *Call) hold() bool {
	switch {
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

// integer reads an argument that the script hands to a command which takes an
// integer, such as INCRBY.
func integer(arg []byte) (n int64, ok bool) { return resp.ParseInt(arg) }

// maxExact is up to where each integer is a float64 of its own.
const maxExact = 1 << 53

// whole reads an argument that the script makes a number of, or has Lua make one
// of, and then uses as an integer: plain digits, exact as a float64 and still so
// after an addition or two.
func whole(arg []byte) (n int64, ok bool) {
	n, ok = resp.ParseInt(arg)
	return n, ok && -maxExact/4 < n && n < maxExact/4
}

// number reads an argument as tonumber does.
func number(arg []byte) (f float64, ok bool) {
	if n, ok := whole(arg); ok {
		return float64(n), true
	}
	if f, ok := decimal(arg); ok {
		return f, true
	}
	return lua.ParseNumber(string(arg))
}

// decimal reads digits with a point among them, such as a time in seconds. Both
// the digits as an integer and the power of ten are exact, so their quotient is
// rounded once, as it is to be; ok is false where they would not be.
func decimal(arg []byte) (f float64, ok bool) {
	const mostDigits = 16 // so that the digits are far below 2^63
	digits, power, point := int64(0), 1.0, false
	if len(arg) == 0 || len(arg) > mostDigits+1 {
		return 0, false
	}
	for i, b := range arg {
		switch {
		case b == '.' && !point && i > 0 && i < len(arg)-1:
			point = true
		case b < '0' || b > '9':
			return 0, false
		default:
			if digits = 10*digits + int64(b-'0'); point {
				power *= 10
			}
		}
	}
	return float64(digits) / power, digits < maxExact
}

// plainNumber reads an argument that is a number in plain decimals, for Lua and for
// commands alike.
func plainNumber(arg []byte) (f float64, ok bool) {
	if n, ok := whole(arg); ok {
		return float64(n), true
	}
	if f, ok := decimal(arg); ok {
		return f, true
	}
	if len(arg) == 0 || len(arg) > 24 || arg[0] == '.' || arg[len(arg)-1] == '.' {
		return 0, false
	}
	for _, c := range arg {
		if c != '.' && (c < '0' || c > '9') {
			return 0, false
		}
	}
	return lua.ParseNumber(string(arg))
}

// maxSpan is the longest time to live in ms that is not left to the commands:
// some 158 years.
const maxSpan = 5e12

// after returns the deadline that EXPIRE, PEXPIRE and their like give a key; ok
// is false for a time that is none, or too far away.
func (c *Call) after(n int64, unit time.Duration) (at int64, ok bool) {
	if n <= 0 || n > maxSpan/int64(unit/time.Millisecond) {
		return 0, false
	}
	return c.Now + n*int64(unit), true
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
