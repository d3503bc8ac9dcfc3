package server

import (
	"time"

	"github.com/headgate-io/headgate/resp"
)

// openFields opens a reply of n named values: a map in RESP3, in RESP2 an
// array of the values alone.
func openFields(w *resp.Writer, n int) {
	if w.RESP3 {
		w.Map(n)
	} else {
		w.Array(n)
	}
}

// openDecision opens the reply of a limit, which in RESP3 tells when the limit
// was not asked; closeDecision ends it.
func (c *conn) openDecision(fields int) {
	if c.lane.degraded && c.w.RESP3 {
		fields++
	}
	openFields(c.w, fields)
}

func (c *conn) closeDecision() {
	if c.lane.degraded && c.w.RESP3 {
		field(c.w, "degraded")
		c.w.Bool(true)
	}
}

// field writes the name of the next value, where the protocol has names.
func field(w *resp.Writer, name string) {
	if w.RESP3 {
		w.BulkString(name)
	}
}

func intField(w *resp.Writer, name string, n int64) {
	field(w, name)
	w.Int(n)
}

// pairs collects a reply of names and values, whose number is known at the end:
// a map in RESP3, in RESP2 a flat array.
type pairs struct {
	w *resp.Writer
	n int
	b resp.Writer
}

func newPairs(w *resp.Writer) *pairs { return &pairs{w: w, b: resp.Writer{RESP3: w.RESP3}} }

func (p *pairs) str(name, v string) {
	p.n++
	p.b.BulkString(name)
	p.b.BulkString(v)
}

func (p *pairs) int(name string, v int64) {
	p.n++
	p.b.BulkString(name)
	p.b.Int(v)
}

func (p *pairs) flush() {
	p.w.Map(p.n)
	p.w.B = append(p.w.B, p.b.B...)
}

// truth is 1 for true.
func truth(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// ceilUnits rounds a duration of 0 or more up to whole units; engine.Never
// stays what it is.
func ceilUnits(ns int64, unit time.Duration) int64 {
	n := ns / int64(unit)
	if ns%int64(unit) > 0 {
		n++
	}
	if ns < 0 {
		return ns
	}
	return n
}

// ceilMillis is ceilUnits for milliseconds, so that waiting as long as told is
// enough.
func ceilMillis(ns int64) int64 { return ceilUnits(ns, time.Millisecond) }
