package limits

import (
	"errors"
	"time"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/resp"
	"github.com/headgate-io/headgate/server/command"
)

// counterCommands returns the commands of counters with bounds and a time to live.
func counterCommands() []command.Spec {
	return []command.Spec{{
		Name: "increx", Arity: -2, Flags: command.Write | command.DenyOOM | command.Fast | command.Counter,
		Keys: command.Keys{First: 1, Last: 1, Step: 1}, Categories: command.CatString,
		Group: "string", Complexity: "O(1)",
		Summary: "Increments a counter within bounds and sets its expiry, as INCREX of Redis 8.8.",
		Syntax: "key [BYFLOAT increment | BYINT increment] [LBOUND lower] [UBOUND upper] [SATURATE] " +
			"[EX seconds | PX milliseconds | EXAT unix-time-seconds | PXAT unix-time-milliseconds | PERSIST] [ENX]",
		Handler: incrEx,
	}}
}

// incrEx replies [value, applied]: integers, or with BYFLOAT doubles, which
// in RESP2 are strings.
func incrEx(call *command.Call) {
	o, err := parseIncrEx(call.Args[2:], call.Now)
	if err != nil {
		call.Error(err.Error())
		return
	}
	value, applied, err := call.Sess.IncrEx(call.Now, call.Args[1], &o)
	if err != nil {
		call.Fail(err)
		return
	}
	call.W.Array(2)
	writeNumber(call.W, value, o.Float)
	writeNumber(call.W, applied, o.Float)
}

// writeNumber writes a counter's number. A double keeps all its digits, more than a
// float64 has.
func writeNumber(w *resp.Writer, n engine.Number, double bool) {
	switch i, integer := n.Int64(); {
	case !double && integer:
		w.Int(i)
	case w.RESP3:
		w.B = append(w.B, ',')
		w.B = append(w.B, n.String()...)
		w.B = append(w.B, "\r\n"...)
	default:
		w.BulkString(n.String())
	}
}

// incrExArgs are the options of INCREX as they are written.
type incrExArgs struct {
	by, lower, upper []byte
	expiry, when     []byte // EX, PX, EXAT or PXAT, and its value
	float            bool
	saturate, enx    bool
	persist          bool
}

// parseIncrEx reads the options. Its errors, and their order, are Redis's.
func parseIncrEx(args [][]byte, now int64) (o engine.IncrOptions, err error) {
	a, err := scanIncrEx(args)
	if err != nil {
		return o, err
	}
	o = engine.IncrOptions{Float: a.float, By: engine.Integer(1), Saturate: a.saturate, Persist: a.persist, OnlyNew: a.enx}
	if a.enx && a.expiry == nil {
		return o, command.EngineError(engine.ErrOnlyNew)
	}
	for _, n := range []struct {
		text []byte
		name string
		dst  *engine.Number
		has  *bool
	}{
		{a.by, "Increment", &o.By, new(bool)},
		{a.lower, "LBOUND", &o.Lower, &o.HasLower},
		{a.upper, "UBOUND", &o.Upper, &o.HasUpper},
	} {
		if n.text == nil {
			continue
		}
		*n.has = true
		if *n.dst, err = parseNumber(n.text, n.name, a.float); err != nil {
			return o, err
		}
	}
	if a.expiry != nil {
		err = a.setExpiry(&o, now)
	}
	return o, err
}

// scanIncrEx sorts the options. Options that exclude each other, or are repeated, are
// syntax errors.
func scanIncrEx(args [][]byte) (a incrExArgs, err error) {
	for ; len(args) > 0; args = args[1:] {
		name := args[0]
		switch {
		case command.EqualFold(name, "saturate") && !a.saturate:
			a.saturate = true
			continue
		case command.EqualFold(name, "enx") && !a.enx && !a.persist:
			a.enx = true
			continue
		case command.EqualFold(name, "persist") && !a.persist && !a.enx && a.expiry == nil:
			a.persist = true
			continue
		case len(args) < 2:
			return a, command.ErrSyntax
		}
		args = args[1:]
		switch value := args[0]; {
		case command.EqualFold(name, "byint") && a.by == nil:
			a.by = value
		case command.EqualFold(name, "byfloat") && a.by == nil:
			a.by, a.float = value, true
		case command.EqualFold(name, "lbound") && a.lower == nil:
			a.lower = value
		case command.EqualFold(name, "ubound") && a.upper == nil:
			a.upper = value
		case a.expiry == nil && !a.persist && isExpiry(name):
			a.expiry, a.when = name, value
		default:
			return a, command.ErrSyntax
		}
	}
	return a, nil
}

func parseNumber(b []byte, name string, float bool) (engine.Number, error) {
	if float {
		n, err := engine.ParseFloat(b)
		if err != nil {
			return n, errors.New("ERR " + name + " is not a valid float")
		}
		return n, nil
	}
	n, ok := resp.ParseInt(b)
	if !ok {
		return engine.Number{}, errors.New("ERR " + name + " is not an integer or out of range")
	}
	return engine.Integer(n), nil
}

func isExpiry(name []byte) bool {
	return command.EqualFold(name, "ex") || command.EqualFold(name, "px") || command.EqualFold(name, "exat") || command.EqualFold(name, "pxat")
}

// setExpiry parses the time of EX, PX, EXAT or PXAT.
func (a *incrExArgs) setExpiry(o *engine.IncrOptions, now int64) error {
	n, ok := resp.ParseInt(a.when)
	if !ok {
		return command.ErrNotInteger
	}
	unit := time.Second
	if a.expiry[0]|0x20 == 'p' {
		unit = time.Millisecond
	}
	relative := len(a.expiry) == len("ex")
	base := int64(0)
	if relative {
		base = now
	}
	at, ok := command.AddSpan(base, n, unit)
	if !ok || n <= 0 {
		return command.ErrInvalidExpire("increx")
	}
	if relative {
		o.TTL = at - now
	} else {
		o.Deadline = at
	}
	return nil
}
