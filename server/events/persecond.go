package events

import "sync/atomic"

// PerSecond bounds the number of something in a second. The zero value has counted none.
type PerSecond struct {
	// window is the second that made counts in.
	window, made atomic.Int64
}

// May reports whether one more is allowed at a time in ns, and counts it. most is the bound
// of a second.
func (p *PerSecond) May(now, most int64) bool {
	if w := now / second; p.window.Load() != w && p.window.Swap(w) != w {
		p.made.Store(0)
	}
	return p.made.Add(1) <= most
}
