package native

import "sync/atomic"

// Runs counts how often a known script was asked to run, and how often it has.
type Runs struct{ Asked, Done atomic.Int64 }

// CountRuns counts from here on what happens to a known script. No server may
// run yet.
func (s *Script) CountRuns() *Runs {
	n := new(Runs)
	s.count(n)
	return n
}

func (s *Script) count(n *Runs) {
	run := s.run
	s.run = func(c *Call) bool {
		n.Asked.Add(1)
		done := run(c)
		if done {
			n.Done.Add(1)
		}
		return done
	}
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

// CountForms counts from here on what happens to scripts that are known by their
// forms. No server may run yet.
func CountForms() *Runs {
	Prepare()
	n := new(Runs)
	for _, list := range byShape {
		for i := range list {
			bind := list[i].bind
			list[i].bind = func(p *params) func(c *Call) bool {
				s := Script{run: bind(p)}
				if s.run != nil {
					s.count(n)
				}
				return s.run
			}
		}
	}
	return n
}
