package command

import (
	"time"

	"github.com/headgate-io/headgate/resp"
)

// Pairs collects a reply of names and values, whose number is known at the end: a map in
// RESP3, in RESP2 a flat array.
type Pairs struct {
	w *resp.Writer
	n int
	b resp.Writer
}

// NewPairs returns an empty reply. Flush writes it to w.
func NewPairs(w *resp.Writer) *Pairs { return &Pairs{w: w, b: resp.Writer{RESP3: w.RESP3}} }

// Str adds a name and a string.
func (p *Pairs) Str(name, v string) {
	p.n++
	p.b.BulkString(name)
	p.b.BulkString(v)
}

// Int adds a name and a number.
func (p *Pairs) Int(name string, v int64) {
	p.n++
	p.b.BulkString(name)
	p.b.Int(v)
}

// List adds a name and an array. Its n elements must be written to the returned writer.
func (p *Pairs) List(name string, n int) *resp.Writer {
	p.n++
	p.b.BulkString(name)
	p.b.Array(n)
	return &p.b
}

// Flush writes the reply.
func (p *Pairs) Flush() {
	p.w.Map(p.n)
	p.w.B = append(p.w.B, p.b.B...)
}

// Truth returns 1 for true and 0 for false.
func Truth(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// CeilUnits rounds a duration of 0 or more up to whole units; algo.Never stays -1.
func CeilUnits(ns int64, unit time.Duration) int64 {
	n := ns / int64(unit)
	if ns%int64(unit) > 0 {
		n++
	}
	if ns < 0 {
		return ns
	}
	return n
}

// CeilMillis is CeilUnits for milliseconds: a client that waits that long waits long
// enough.
func CeilMillis(ns int64) int64 { return CeilUnits(ns, time.Millisecond) }

// TTLPersistent is the TTL of a key that never expires.
const TTLPersistent = -1
