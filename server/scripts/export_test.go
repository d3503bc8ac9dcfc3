package scripts

import "github.com/headgate-io/headgate/server/command"

// Idle returns how many runs are kept for the next scripts, and how many of them have
// copies of keys.
func (s *Scripts) Idle() (n, copies int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.idle {
		if r.scratch != nil {
			copies++
		}
	}
	return len(s.idle), copies
}

// KeepsArguments reports whether what known scripts have of a thread keeps the arguments
// of their last call.
func KeepsArguments(t command.Tally) bool {
	c := t.(*nativeCall)
	return c.Keys != nil || c.Args != nil
}
