package oracle

import (
	"fmt"
	"slices"
	"time"

	"github.com/headgate-io/headgate/faults/history"
)

// Promptness measures the calls that nodes answered within the given time of when they were due, or of when the machine ran
// the load. Calls to a node that the run itself had stopped, and about keys that are Apart, are left out. It fails below goal, a
// share of the calls; a goal of 0 only measures.
func Promptness(h *history.History, outages []Outage, within time.Duration, goal float64) (Finding, float64) {
	f := Finding{Check: "prompt", OK: true}
	var offered, prompt, local, skipped, failed, stalled int
	var latencies []time.Duration
	for i := range h.Calls {
		c := &h.Calls[i]
		if h.Apart(c) {
			continue
		}
		if Excused(c, outages) {
			skipped++
			continue
		}
		offered++
		if !c.Decided() {
			failed++
			continue
		}
		latencies = append(latencies, c.Latency())
		if time.Duration(c.Late) > within/4 {
			stalled++
		}
		if c.Latency() <= within {
			prompt++
		}
		if c.Local {
			local++
		}
	}
	if offered == 0 {
		f.violate("no calls")
		return f, 0
	}
	share := float64(prompt) / float64(offered)
	at := func(q float64) time.Duration { return Quantile(latencies, q).Round(10 * time.Microsecond) }
	f.Text = fmt.Sprintf("%.3f %% of %d calls answered within %v, %d not at all or by errors (%d by the failure policy, %d to stopped or new nodes left out; %d that the machine made more than %v late); p50 %v, p99 %v, p99.9 %v, max %v",
		100*share, offered, within, failed, local, skipped, stalled, within/4, at(.5), at(.99), at(.999), at(1))
	if share < goal {
		f.violate("below the goal of %.3f %%", 100*goal)
	}
	return f, share
}

// Quantile returns a quantile of some times, 0 if there are none.
func Quantile(times []time.Duration, q float64) time.Duration {
	if len(times) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(times))
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
}
