package sequence

import (
	"slices"
	"strings"
)

// Shrink returns a sequence, as short as it finds, for which fails is still true, as it
// is for steps. It leaves out steps, then arguments and lines of scripts. It stops early
// when fails returns false for everything.
func Shrink(steps []Step, fails func([]Step) bool) []Step {
	for {
		before := size(steps)
		steps = fewer(steps, fails)
		for i := range steps {
			steps = simpler(steps, i, fails)
		}
		if size(steps) == before {
			return steps
		}
	}
}

// size is what a shrunk sequence has less of.
func size(steps []Step) int {
	n := 0
	for i := range steps {
		n += 1 + len(steps[i].Args)
		for _, a := range steps[i].Args {
			n += strings.Count(a, "\n")
		}
		if steps[i].Joined {
			n++
		}
	}
	return n
}

// fewer leaves out steps, in pieces of half the sequence, then a quarter and so
// on down to one step (delta debugging).
func fewer(steps []Step, fails func([]Step) bool) []Step {
	for piece := max(len(steps)/2, 1); ; piece /= 2 {
		for at := 0; at < len(steps); {
			rest := slices.Delete(slices.Clone(steps), at, min(at+piece, len(steps)))
			if fails(rest) {
				steps = rest
			} else {
				at += piece
			}
		}
		if piece == 1 {
			return steps
		}
	}
}

// simpler leaves out what it can of one step.
func simpler(steps []Step, i int, fails func([]Step) bool) []Step {
	try := func(change func(s *Step)) bool {
		changed := slices.Clone(steps)
		changed[i].Args = slices.Clone(steps[i].Args)
		change(&changed[i])
		if !fails(changed) {
			return false
		}
		steps = changed
		return true
	}
	if steps[i].Joined {
		try(func(s *Step) { s.Joined = false })
	}
	if steps[i].Scan {
		return steps
	}
	for at := len(steps[i].Args) - 1; at > 0; at-- {
		if try(func(s *Step) { s.Args = slices.Delete(s.Args, at, at+1) }) {
			continue
		}
		for line := strings.Count(steps[i].Args[at], "\n"); line >= 0 && strings.Contains(steps[i].Args[at], "\n"); line-- {
			try(func(s *Step) {
				lines := strings.Split(s.Args[at], "\n")
				if line < len(lines) {
					s.Args[at] = strings.Join(slices.Delete(lines, line, line+1), "\n")
				}
			})
		}
	}
	return steps
}
