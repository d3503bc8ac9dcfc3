package events

import "sync/atomic"

// PerSecond bounds how often something happens in a second. Its zero value is ready for
// use.
type PerSecond struct {
	// made counts what happened in the second window.
	window, made atomic.Int64
}

// May reports whether one more is allowed at the time now, in ns, and if so counts it. limit
// is the bound per second.
func (p *PerSecond) May(now, limit int64) bool {
	if w := now / second; p.window.Load() != w && p.window.Swap(w) != w {
		p.made.Store(0)
	}
	return p.made.Add(1) <= limit
}
