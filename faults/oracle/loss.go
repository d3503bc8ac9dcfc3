package oracle

import (
	"math"
	"time"

	"github.com/headgate-io/headgate/faults/history"
)

// Loss is a time in which a leader may have decided what was then lost, in ns since the start of the run.
type Loss struct {
	From, To int64

	// Group is whose leader it was, AnyGroup if that is not known, or if the leader of several groups was lost.
	Group int

	// Node is the node that the run harmed, empty if there were several. Only the runner uses it.
	Node string

	// Resumed: the leader had been paused before, and found calls that had waited for it. It has no right to decide them.
	Resumed bool
}

// AnyGroup stands for all groups.
const AnyGroup = -1

// AsyncBound returns the bound that asynchronous replication states. For each lost leader and key it is as many units
// as clients may have asked for within one interval of maxUnacked. It is never more than the key's capacity. group
// returns the group of a key, or AnyGroup: a key loses nothing with the leader of another group.
func AsyncBound(losses []Loss, maxUnacked time.Duration, group func(key uint32) int) func(key uint32, calls []history.Call) int64 {
	return func(key uint32, calls []history.Call) (sum int64) {
		own := group(key)
		for _, l := range losses {
			if l.Group == own || l.Group == AnyGroup || own == AnyGroup {
				sum += mostOffered(calls, l, int64(maxUnacked))
			}
		}
		return sum
	}
}

// None is the bound of synchronous replication.
func None(uint32, []history.Call) int64 { return 0 }

// mostOffered is the most that was asked of a key within one interval of the given width inside of l. A call belongs to
// an interval if it was under way in it, however long it had been before. A node that had no time for its clients
// passes on at once what they have sent meanwhile. If the leader was paused, the call must not have been under way for
// longer than another width when the interval begins.
func mostOffered(calls []history.Call, l Loss, width int64) (most int64) {
	waited := int64(math.MaxInt64)
	if l.Resumed {
		waited = width
	}
	var in []history.Call
	for _, c := range calls {
		if c.Start > l.To {
			break
		}
		if c.End >= l.From && l.From-c.Start <= waited && c.Cost > 0 && c.Outcome != history.Refused {
			in = append(in, c)
		}
	}
	// An interval with the most calls may begin where l does, where one of them ends, or as late as one of them still counts.
	from := []int64{l.From}
	for i := range in {
		from = append(from, max(l.From, in[i].End))
		if l.Resumed {
			from = append(from, max(l.From, in[i].Start+width))
		}
	}
	for _, at := range from {
		var sum, limit int64
		for j := range in {
			if in[j].End >= at && at-in[j].Start <= waited && in[j].Start <= at+width {
				sum += int64(in[j].Cost)
			}
			limit = max(limit, int64(in[j].Limit))
		}
		most = max(most, min(sum, limit))
	}
	return most
}
