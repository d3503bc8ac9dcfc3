package native

import "sync/atomic"

// Runs counts how often a known script was asked to run, and how often it has.
type Runs struct{ Asked, Done atomic.Int64 }

// CountRuns counts from here on what happens to a known script. No server may
// run yet.
func (s *Script) CountRuns() *Runs {
	n, run := new(Runs), s.run
	s.run = func(c *Call) bool {
		n.Asked.Add(1)
		done := run(c)
		if done {
			n.Done.Add(1)
		}
		return done
	}
	return n
}

// Also makes s known by a further SHA1. No server may run yet.
func (s *Script) Also(sha string) { bySHA[sha] = s }

// FormTexts are the texts of all forms, by the Library of their script.
func FormTexts() map[string][]string {
	Prepare()
	texts := map[string][]string{}
	for _, list := range byShape {
		for _, f := range list {
			texts[f.script.Library] = append(texts[f.script.Library], f.text)
		}
	}
	return texts
}
