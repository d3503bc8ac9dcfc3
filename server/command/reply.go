package command

import (
	"time"

	"github.com/headgate-io/headgate/resp"
)

// Pairs collects names and values for a reply whose length is known only at the end. The
// reply is a map in RESP3 and a flat array in RESP2.
type Pairs struct {
	w *resp.Writer
	n int
	b resp.Writer
}

// NewPairs returns an empty Pairs. Flush writes the reply to w.
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

// List adds a name and an array of n elements. The caller must write the elements to the
// returned writer.
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

// CeilUnits returns a duration of at least 0 in whole units, rounded up. It returns -1 for
// algo.Never.
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

// CeilMillis returns a duration in milliseconds, rounded up. So a client that waits as many
// milliseconds waits long enough.
func CeilMillis(ns int64) int64 { return CeilUnits(ns, time.Millisecond) }

// TTLPersistent is the TTL of a key that never expires.
const TTLPersistent = -1
