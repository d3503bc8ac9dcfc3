package events

import "sync/atomic"

// PerSecond bounds how much there is of something in a second. The zero value has
// seen none.
type PerSecond struct {
	// window is the second that made counts for.
	window, made atomic.Int64
}

// May reports whether there may be one more at a time in ns, and counts it, if most are
// the most in a second.
func (p *PerSecond) May(now, most int64) bool {
	if w := now / second; p.window.Load() != w && p.window.Swap(w) != w {
		p.made.Store(0)
	}
	return p.made.Add(1) <= most
}
