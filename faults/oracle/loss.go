package oracle

import (
	"sort"
	"time"

	"github.com/headgate-io/headgate/faults/history"
)

// Loss is a time in which a leader may have decided what was then lost, in ns since the start of the run.
type Loss struct{ From, To int64 }

// AsyncBound returns the bound that asynchronous replication states: for each lost leader and key, as many units as were
// offered within one interval of maxUnacked, and never more than the key's capacity.
func AsyncBound(losses []Loss, maxUnacked time.Duration) func(key uint32, calls []history.Call) int64 {
	return func(_ uint32, calls []history.Call) (sum int64) {
		for _, l := range losses {
			sum += mostOffered(calls, l, int64(maxUnacked))
		}
		return sum
	}
}

// None is the bound of synchronous replication.
func None(uint32, []history.Call) int64 { return 0 }

// mostOffered is the most that was asked of a key within one interval of the given width inside of l. A call belongs to
// an interval if any part of it does.
func mostOffered(calls []history.Call, l Loss, width int64) (most int64) {
	const longest = int64(10 * time.Second) // no call is older when it ends
	first := sort.Search(len(calls), func(i int) bool { return calls[i].Start >= l.From-longest })
	var in []history.Call
	for _, c := range calls[first:] {
		if c.Start > l.To {
			break
		}
		if c.End >= l.From && c.Cost > 0 && c.Outcome != history.Refused {
			in = append(in, c)
		}
	}
	// An interval with the most calls may begin where one of them ends, or where l does.
	for i := -1; i < len(in); i++ {
		from := l.From
		if i >= 0 {
			from = max(from, in[i].End)
		}
		var sum, limit int64
		for j := range in {
			if in[j].End >= from && in[j].Start <= from+width {
				sum += int64(in[j].Cost)
			}
			limit = max(limit, int64(in[j].Limit))
		}
		most = max(most, min(sum, limit))
	}
	return most
}
