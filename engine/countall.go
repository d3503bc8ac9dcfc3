package engine

import "github.com/headgate-io/headgate/engine/algo"

// countDenied plans the charge of a denied call to a limit that counts it: see
// Rule.Count. If the limit had room, w.d gets the wait of the next such call: see
// Verdict.prolong.
func (s *Session) countDenied(w *weighed, now int64, c *Check) {
	in := algo.Input{State: w.st, List: w.list(), Now: now, Cost: c.Cost, Options: &w.opts, MaxEntries: s.e.logMaxEntries}
	var n algo.Count
	n, w.err = w.it.Count(&in, &w.d)
	w.next, w.words, w.write, w.counted, w.forfeits = n.Next, n.Words, n.Write, n.Units, n.Forfeits
}

// fill plans the charge of a call that a soft limit would have denied: up to its room, or
// beyond its limit if it counts on.
func (s *Session) fill(w *weighed, now, cost int64) {
	if w.it.Decides == algo.Slots { // Reserve takes them
		return
	}
	opts := w.opts
	opts.Wait = 0
	opts.Force = w.it.CountsOn()
	opts.AtMost = !opts.Force
	w.forfeits = opts.AtMost && cost > 0
	w.d = algo.Decision{}
	if w.err = s.evaluate(&w.plan, w.st, now, cost, &opts); w.err != nil {
		w.write = false
	}
	if w.forfeits && !w.write && !opts.Peek { // there was no room
		s.unmark(w)
	}
}
