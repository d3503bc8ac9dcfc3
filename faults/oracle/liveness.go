package oracle

import (
	"fmt"
	"slices"
	"time"

	"github.com/headgate-io/headgate/faults/history"
)

// LivenessBounds are the most that a run may show of each.
type LivenessBounds struct {
	Refused float64       // share of the calls that ended without effect: not sent, or answered so
	Unknown float64       // share of the calls without an answer, or with UNCERTAIN
	Late    float64       // share of the calls that were answered after within
	Silence time.Duration // the longest time in which calls were due and the cluster decided none
	Gap     time.Duration // the median time from a harm to the next decision
}

// AtLeast returns the wider of two bounds, of each.
func (b LivenessBounds) AtLeast(o LivenessBounds) LivenessBounds {
	return LivenessBounds{
		max(b.Refused, o.Refused), max(b.Unknown, o.Unknown), max(b.Late, o.Late), max(b.Silence, o.Silence), max(b.Gap, o.Gap),
	}
}

// Liveness is what clients saw of a limiter's being there. Calls to nodes that the run itself had stopped are left out,
// and calls about keys that are Apart. An answer of a failure policy is an answer, and no decision by the cluster.
type Liveness struct {
	Calls                  int
	Refused, Unknown, Late float64
	Local                  float64       // share of the answers that were a failure policy's
	Silence                time.Duration // the longest
	Gap                    time.Duration // the median of Gaps
	Gaps                   int
}

const (
	// fewGaps and rareGap judge the time from harm to decision of runs with so few harms that the median is any of
	// them. An election takes 0.6 to 1.4 s, or up to 2 s where votes were split. Of 100 kills in a row the median was
	// 1.03 s and the longest 1.49 s. Single kills took up to 1.69 s.
	fewGaps = 4
	rareGap = 1.5
)

// gapBound is what the median of that many gaps may be. A single one that is longer than usual is not silence yet.
func (b LivenessBounds) gapBound(gaps int) time.Duration {
	if gaps >= fewGaps {
		return b.Gap
	}
	return max(b.Gap, min(time.Duration(rareGap*float64(b.Gap)), b.Silence))
}

// MeasureLiveness measures a history, and the times from harms to the next decisions.
func MeasureLiveness(h *history.History, outages []Outage, within time.Duration, gaps []time.Duration) Liveness {
	var l Liveness
	var refused, unknown, late, local, answered int
	var decisions []int64
	var dues []int64
	for i := range h.Calls {
		c := &h.Calls[i]
		if h.Apart(c) {
			continue
		}
		dues = append(dues, c.Due)
		if c.Decided() && !c.Local {
			decisions = append(decisions, c.End)
		}
		if Excused(c, outages) {
			continue
		}
		l.Calls++
		switch {
		case c.Outcome == history.Refused:
			refused++
		case !c.Decided():
			unknown++
		default:
			answered++
			if c.Local {
				local++
			}
			if c.Latency() > within {
				late++
			}
		}
	}
	share := func(n, of int) float64 { return float64(n) / float64(max(of, 1)) }
	l.Refused, l.Unknown, l.Late, l.Local = share(refused, l.Calls), share(unknown, l.Calls), share(late, l.Calls), share(local, answered)
	slices.Sort(decisions)
	slices.Sort(dues)
	last := int64(-1)
	for _, at := range decisions {
		l.Silence = max(l.Silence, Silence(dues, last, at))
		last = at
	}
	l.Gap, l.Gaps = Quantile(gaps, .5), len(gaps)
	return l
}

// pause is for how long nothing is due where the load has paused.
const pause = time.Second

// Silence is how long there was no decision after the moment last, until at. It counts from the first call that is due
// in between, and without pauses of the load. dues are sorted.
func Silence(dues []int64, last, at int64) time.Duration {
	i, _ := slices.BinarySearch(dues, last+1)
	end, _ := slices.BinarySearch(dues, at)
	if i == end {
		return 0
	}
	d := time.Duration(at - dues[i])
	for i++; i < end; i++ {
		if gap := time.Duration(dues[i] - dues[i-1]); gap > pause {
			d -= gap
		}
	}
	return d
}

// Live checks a run's liveness. slack widens the bounds for a machine that was busy with something else: 1 is none. late
// is a share of the calls that it surely made late.
func Live(l Liveness, b LivenessBounds, slack, late float64) Finding {
	b.Late += late / slack
	b.Gap = b.gapBound(l.Gaps)
	f := Finding{Check: "live", OK: true}
	f.Text = fmt.Sprintf("of %d calls refused %.2f %% (bound %.2f), unknown %.3f %% (%.3f), late %.2f %% (%.2f); longest without a decision %.2f s (%.2f), from harm to the next %.2f s (%.2f)",
		l.Calls, 100*l.Refused, 100*b.Refused, 100*l.Unknown, 100*b.Unknown, 100*l.Late, 100*b.Late,
		l.Silence.Seconds(), b.Silence.Seconds(), l.Gap.Seconds(), b.Gap.Seconds())
	if l.Calls == 0 {
		f.violate("no calls")
	}
	share := func(name string, got, bound float64) {
		if bound *= slack; got > bound {
			f.violate("%s: %.3f %% of the calls, above %.3f %%", name, 100*got, 100*bound)
		}
	}
	share("refused", l.Refused, b.Refused)
	share("unknown", l.Unknown, b.Unknown)
	share("late", l.Late, b.Late)
	wait := func(name string, got, bound time.Duration) {
		if bound = time.Duration(float64(bound) * slack); got > bound {
			f.violate("%s: %.2f s, above %.2f s", name, got.Seconds(), bound.Seconds())
		}
	}
	wait("longest without a decision", l.Silence, b.Silence)
	wait("from harm to the next decision, median", l.Gap, b.Gap)
	return f
}
