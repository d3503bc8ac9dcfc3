package oracle

import (
	"fmt"
	"slices"
	"time"
)

// Windowed is a limit of windows that processes spend leases of, and what became of it. Times are those of askers.Now.
type Windowed struct {
	Sliding bool
	Epoch   int64 // of the times in findings
	Wall    int64 // the wall time at 0, which windows begin at multiples of
	Units   int64 // per Period
	Period  time.Duration
	Callers []LeaseCaller
	Losses  []Loss // of leaders that had not replicated all
}

// clockApart is how far the clock of the limits may be from the runner's.
const clockApart = 50 * time.Millisecond

// Windows judges a leased limit of windows.
//
//   - spent: what was certainly admitted within a window is at most its units. For a sliding limit that includes the part
//     of the window before that still counts.
//   - ends: no block lasts longer than its window, and none has a refill.
//
// What a lost leader had granted, and not replicated, is added to the units of its window, and of the next if it slides.
func Windows(l *Windowed) Finding {
	f := Finding{Check: "windows", OK: true}
	period := int64(l.Period)
	in := func(at int64) int64 { return (at + l.Wall) / period }
	spent := map[int64][]int64{} // in a window: when calls ended
	calls, grants, blocks := 0, 0, 0
	for _, c := range l.Callers {
		for _, a := range c.Admitted {
			calls++
			if w := in(a.From - int64(clockApart)); w == in(a.To+int64(clockApart)) {
				spent[w] = append(spent[w], a.To)
			}
		}
		for _, g := range c.Grants {
			grants++
			if g.Failed || g.TTL == 0 {
				continue
			}
			blocks++
			if end := (in(g.To) + 1) * period; g.From+int64(g.TTL)+l.Wall > end+int64(clockApart) {
				f.violate("at %.3f s a block lasts %v, %v after its window", seconds(g.From-l.Epoch), g.TTL, time.Duration(g.From+int64(g.TTL)+l.Wall-end))
			}
			if g.Refill > 0 {
				f.violate("at %.3f s a block has a refill of %d", seconds(g.From-l.Epoch), g.Refill)
			}
		}
	}
	risk := map[int64]int64{}
	bucket := Leased{Units: l.Units, Callers: l.Callers}
	for _, loss := range l.Losses {
		for w := in(loss.From - int64(clockApart)); w <= in(loss.To+int64(clockApart)); w++ {
			risk[w] += bucket.atRisk(loss)
		}
	}
	most, extra := int64(0), int64(0)
	for w, ends := range spent {
		beyond := l.beyond(ends, int64(len(spent[w-1])), (w+1)*period-l.Wall)
		allowed := risk[w]
		if l.Sliding {
			allowed += risk[w-1]
		}
		if beyond > allowed {
			f.violate("window at %.3f s: %d units were admitted beyond %d, at most %d may be", seconds(w*period-l.Wall-l.Epoch), beyond, l.Units, allowed)
		}
		most, extra = max(most, int64(len(ends))), extra+max(beyond, 0)
	}
	kind := "fixed"
	if l.Sliding {
		kind = "sliding"
	}
	f.Text = fmt.Sprintf("%s: %d units admitted by %d requests for leases, %d of them with a block, %d beyond the limit; %d at most in a window of %d",
		kind, calls, grants, blocks, extra, most, l.Units)
	return f
}

// beyond returns how many calls of a window no limit admits. before is how many there were in the window before.
func (l *Windowed) beyond(ends []int64, before, end int64) (most int64) {
	if !l.Sliding {
		return int64(len(ends)) - l.Units
	}
	for i, at := range slices.Sorted(slices.Values(ends)) {
		left := max(end-at-int64(clockApart), 0) // of the window; so much of the one before counts
		counts := int64(float64(before) * float64(left) / float64(l.Period))
		most = max(most, int64(i+1)+counts-l.Units)
	}
	return most
}
