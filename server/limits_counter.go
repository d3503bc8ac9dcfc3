package server

import (
	"errors"
	"time"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/server/resp"
)

// counterCommands are counters with bounds and a time to live.
func counterCommands() []command {
	return []command{{
		name: "increx", arity: -2, flags: flagWrite | flagDenyOOM | flagFast,
		keys: keySpec{first: 1, last: 1, step: 1}, categories: catString,
		group: "string", since: "1.0.0", complexity: "O(1)",
		summary: "Increments a counter within bounds and sets its expiry, as INCREX of Redis 8.8 and Valkey 9.2.",
		syntax: "key [BYFLOAT increment | BYINT increment] [LBOUND lower] [UBOUND upper] [SATURATE] " +
			"[EX seconds | PX milliseconds | EXAT unix-time-seconds | PXAT unix-time-milliseconds | PERSIST] [ENX]",
		handler: cmdIncrEx,
	}}
}

// cmdIncrEx replies [value, applied]: integers, or with BYFLOAT strings.
func cmdIncrEx(c *conn, args [][]byte) {
	var o engine.IncrOptions
	if err := parseIncrEx(&o, args[2:]); err != nil {
		c.error(errArgument(err).Error())
		return
	}
	value, applied, err := c.sess.IncrEx(c.now(), args[1], &o)
	if err != nil {
		c.error(errEngine(err).Error())
		return
	}
	c.w.Array(2)
	if !o.Float {
		writeNumber(c.w, value)
		writeNumber(c.w, applied)
		return
	}
	writeFloat(c.w, value)
	writeFloat(c.w, applied)
}

// errArgument gives an engine's complaint about an argument its prefix and
// leaves the front's own errors alone.
func errArgument(err error) error {
	if s := err.Error(); len(s) > 4 && s[:4] == "ERR " {
		return err
	}
	return errEngine(err)
}

// parseIncrEx reads the options. Those that exclude each other, or come twice,
// are syntax errors.
func parseIncrEx(o *engine.IncrOptions, args [][]byte) error {
	o.By = engine.Integer(1)
	var by, lower, upper []byte
	var expiry bool
	for len(args) > 0 {
		name := args[0]
		switch {
		case keyword(name, "SATURATE") && !o.Saturate:
			o.Saturate = true
		case keyword(name, "ENX") && !o.OnlyNew:
			o.OnlyNew = true
		case keyword(name, "PERSIST") && !expiry:
			o.Persist, expiry = true, true
		case len(args) < 2:
			return errOptions
		default:
			value := args[1]
			args = args[1:]
			switch {
			case keyword(name, "BYINT") && by == nil:
				by = value
			case keyword(name, "BYFLOAT") && by == nil:
				by, o.Float = value, true
			case keyword(name, "LBOUND") && lower == nil:
				lower = value
			case keyword(name, "UBOUND") && upper == nil:
				upper = value
			case !expiry:
				if err := parseExpiry(o, name, value); err != nil {
					return err
				}
				expiry = true
			default:
				return errOptions
			}
		}
		args = args[1:]
	}
	return parseIncrNumbers(o, by, lower, upper)
}

func parseIncrNumbers(o *engine.IncrOptions, by, lower, upper []byte) (err error) {
	read := func(b []byte) (engine.Number, error) {
		if o.Float {
			return engine.ParseFloat(b)
		}
		n, ok := resp.ParseInt(b)
		if !ok {
			return engine.Number{}, errNotInteger
		}
		return engine.Integer(n), nil
	}
	if by != nil {
		if o.By, err = read(by); err != nil {
			return err
		}
	}
	if lower != nil {
		o.HasLower = true
		if o.Lower, err = read(lower); err != nil {
			return err
		}
	}
	if upper != nil {
		o.HasUpper = true
		if o.Upper, err = read(upper); err != nil {
			return err
		}
	}
	return nil
}

func parseExpiry(o *engine.IncrOptions, name, value []byte) error {
	units := []struct {
		name     string
		unit     time.Duration
		absolute bool
	}{{"EX", time.Second, false}, {"PX", time.Millisecond, false}, {"EXAT", time.Second, true}, {"PXAT", time.Millisecond, true}}
	for _, u := range units {
		if !keyword(name, u.name) {
			continue
		}
		n, ok := resp.ParseInt(value)
		if !ok {
			return errNotInteger
		}
		ns, ok := addSpan(0, n, u.unit)
		if !ok || n <= 0 {
			return errors.New("ERR invalid expire time in 'increx' command")
		}
		if u.absolute {
			o.Deadline = ns
		} else {
			o.TTL = ns
		}
		return nil
	}
	return errOptions
}

// writeFloat writes a number of BYFLOAT, as text in either protocol.
func writeFloat(w *resp.Writer, n engine.Number) { w.BulkString(n.String()) }
