package server

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/server/resp"
)

// Errors of arguments. Texts carry their RESP prefix, as clients see them.
var (
	errOptions    = errors.New(errSyntax)
	errNotInteger = errors.New(errNotAnInt)
	errNotFloat   = errors.New("ERR value is not a valid float")
)

const maxSeconds = math.MaxInt64 / int64(time.Second)

// parseInteger parses a 64-bit decimal integer. Like redis-cell, and unlike
// Redis, it takes a leading plus sign.
func parseInteger(b []byte) (int64, error) {
	if len(b) > 1 && b[0] == '+' && b[1] != '-' {
		b = b[1:]
	}
	n, ok := resp.ParseInt(b)
	if !ok {
		return 0, errNotInteger
	}
	return n, nil
}

// parsePeriod parses the length of a limit's period into ns: seconds (60, 0.5)
// or a sum of numbers with units (500ms, 1h30m, 1d; ns us µs ms s m h d w).
func parsePeriod(b []byte) (int64, error) {
	if n, ok := resp.ParseInt(b); ok {
		if n < 1 || n > maxSeconds {
			return 0, periodError(b)
		}
		return n * int64(time.Second), nil
	}
	s := string(b)
	if ns, ok := parseDecimal(s, int64(time.Second)); ok {
		return positive(b, ns)
	}
	var total int64
	for s != "" {
		i := numberPrefix(s)
		j := i
		for j < len(s) && s[j] != '.' && (s[j] < '0' || s[j] > '9') {
			j++
		}
		unit, ok := periodUnits[s[i:j]]
		if !ok {
			return 0, periodError(b)
		}
		ns, ok := parseDecimal(s[:i], unit)
		if !ok || ns > math.MaxInt64-total {
			return 0, periodError(b)
		}
		total += ns
		s = s[j:]
	}
	return positive(b, total)
}

var periodUnits = map[string]int64{
	"ns": 1,
	"us": int64(time.Microsecond),
	"µs": int64(time.Microsecond),
	"ms": int64(time.Millisecond),
	"s":  int64(time.Second),
	"m":  int64(time.Minute),
	"h":  int64(time.Hour),
	"d":  24 * int64(time.Hour),
	"w":  7 * 24 * int64(time.Hour),
}

func periodError(b []byte) error {
	return fmt.Errorf("ERR period '%s' is not a positive number of seconds or a duration such as 500ms, 1m or 1d", clipped(b))
}

func positive(b []byte, ns int64) (int64, error) {
	if ns < 1 {
		return 0, periodError(b)
	}
	return ns, nil
}

// clipped returns what an error message repeats of an argument.
func clipped(b []byte) []byte {
	const most = 64
	return b[:min(len(b), most)]
}

// numberPrefix returns the length of the decimal number that s begins with.
func numberPrefix(s string) int {
	i := 0
	for i < len(s) && (s[i] == '.' || s[i] >= '0' && s[i] <= '9') {
		i++
	}
	return i
}

// parseDecimal parses an unsigned decimal number (12, 0.5) times unit, in
// integers: what is below 1/unit is cut off.
func parseDecimal(s string, unit int64) (int64, bool) {
	whole, frac := s, ""
	for i := range s {
		if s[i] == '.' {
			whole, frac = s[:i], s[i+1:]
			break
		}
	}
	if numberPrefix(s) != len(s) || whole == "" && frac == "" {
		return 0, false
	}
	var n int64
	if whole != "" {
		w, err := strconv.ParseInt(whole, 10, 64)
		if err != nil || w > math.MaxInt64/unit {
			return 0, false
		}
		n = w * unit
	}
	scale := unit
	for i := range len(frac) {
		if frac[i] == '.' {
			return 0, false
		}
		scale /= 10
		part := int64(frac[i]-'0') * scale
		if part > math.MaxInt64-n {
			return 0, false
		}
		n += part
	}
	return n, true
}

// keyword tells whether b is word, in any case. word must be upper-case
// letters.
func keyword(b []byte, word string) bool {
	if len(b) != len(word) {
		return false
	}
	for i := range len(word) {
		if b[i]&^0x20 != word[i] {
			return false
		}
	}
	return true
}

// limitCall is a parsed RL.LIMIT.
type limitCall struct {
	segs []engine.Segment
	opts engine.Options
	sync syncMode
	out  [engine.MaxSegments]engine.Decision
}

// forget drops the views of the client's input.
func (c *limitCall) forget() { clear(c.segs) }

// syncMode is the SYNC or ASYNC of a call.
type syncMode uint8

const (
	syncDefault syncMode = iota
	syncCommit
	syncNone
)

// parse reads the arguments of RL.LIMIT, without the command's name, into c,
// reusing its segments.
//
//	key limit period [ALGORITHM a] [BURST n] [ALIGN epoch|first] [COST n]
//	[PEEK|FORCE|ATMOST] [WAIT ms] [DEBT n] [SYNC|ASYNC] [AND key limit period …]
func (c *limitCall) parse(args [][]byte) error {
	c.segs = c.segs[:0]
	c.opts = engine.Options{}
	c.sync = syncDefault
	for {
		if len(args) < 3 {
			return errOptions
		}
		rest, err := c.parseSegment(args)
		if err != nil {
			return err
		}
		if len(rest) == 0 {
			return c.check()
		}
		args = rest[1:] // what stopped it is AND
	}
}

// check refuses combinations that contradict each other.
func (c *limitCall) check() error {
	o := &c.opts
	if o.Peek && o.Force || o.Peek && o.AtMost || o.Force && o.AtMost {
		return errors.New("ERR PEEK, FORCE and ATMOST exclude each other")
	}
	return nil
}

// parseSegment reads one key with its limit and the options up to AND or the
// end.
func (c *limitCall) parseSegment(args [][]byte) (rest [][]byte, err error) {
	if len(c.segs) == engine.MaxSegments {
		return nil, errEngine(engine.ErrTooManySegments)
	}
	seg := engine.Segment{Key: args[0], Cost: 1}
	if seg.Limit.Limit, err = parseInteger(args[1]); err != nil {
		return nil, err
	}
	if seg.Limit.Period, err = parsePeriod(args[2]); err != nil {
		return nil, err
	}
	args = args[3:]
	for len(args) > 0 && !keyword(args[0], "AND") {
		n, err := c.parseOption(&seg, args)
		if err != nil {
			return nil, err
		}
		args = args[n:]
	}
	c.segs = append(c.segs, seg)
	return args, nil
}

// parseOption reads one option and returns how many arguments it took.
func (c *limitCall) parseOption(seg *engine.Segment, args [][]byte) (int, error) {
	o := &c.opts
	switch name := args[0]; {
	case keyword(name, "PEEK"):
		o.Peek = true
		return 1, nil
	case keyword(name, "FORCE"):
		o.Force = true
		return 1, nil
	case keyword(name, "ATMOST"):
		o.AtMost = true
		return 1, nil
	case keyword(name, "SYNC"):
		return 1, c.setSync(syncCommit)
	case keyword(name, "ASYNC"):
		return 1, c.setSync(syncNone)
	}
	if len(args) < 2 {
		return 0, errOptions
	}
	var err error
	switch name, value := args[0], args[1]; {
	case keyword(name, "COST"):
		seg.Cost, err = parseInteger(value)
	case keyword(name, "BURST"):
		seg.Limit.Burst, err = parseInteger(value)
		if err == nil && seg.Limit.Burst < 1 {
			err = errors.New("ERR BURST must be at least 1")
		}
	case keyword(name, "ALGORITHM"):
		a, ok := engine.ParseAlgorithm(string(value))
		if !ok {
			return 0, fmt.Errorf("ERR unknown algorithm '%s', use token, leaky, fixed, sliding or log", clipped(value))
		}
		seg.Limit.Algorithm = a
	case keyword(name, "ALIGN"):
		switch {
		case keyword(value, "FIRST"):
			seg.Limit.Align = engine.First
		case keyword(value, "EPOCH"):
			seg.Limit.Align = engine.Epoch
		default:
			return 0, fmt.Errorf("ERR unknown alignment '%s', use epoch or first", clipped(value))
		}
	case keyword(name, "WAIT"):
		var ms int64
		if ms, err = parseInteger(value); err == nil && (ms < 0 || ms > math.MaxInt64/int64(time.Millisecond)) {
			err = errors.New("ERR WAIT must be a number of milliseconds, 0 or more")
		}
		o.Wait = ms * int64(time.Millisecond)
	case keyword(name, "DEBT"):
		if o.Debt, err = parseInteger(value); err == nil && o.Debt < 0 {
			err = errors.New("ERR DEBT must be 0 or more")
		}
	default:
		return 0, fmt.Errorf("ERR syntax error, unknown option '%s'", bytes.ToValidUTF8(clipped(name), nil))
	}
	return 2, err
}

func (c *limitCall) setSync(m syncMode) error {
	if c.sync != syncDefault && c.sync != m {
		return errors.New("ERR SYNC and ASYNC exclude each other")
	}
	c.sync = m
	return nil
}

// parseFloat parses a finite decimal number, as Redis does.
func parseFloat(b []byte) (float64, error) {
	f, err := strconv.ParseFloat(string(b), 64)
	if err != nil || math.IsNaN(f) || math.IsInf(f, 0) {
		return 0, errNotFloat
	}
	return f, nil
}
