package algo

import (
	"errors"
	"math"
)

// Errors of decisions. Nothing may be written after one. The front adds a prefix to the
// text.
var (
	// ErrOverflow is returned if a forced charge would make a key's state too large to
	// store: a TAT after latestInstant, or a count above MaxCount.
	ErrOverflow = errors.New("cost would overflow the state of the key")

	// ErrLogFull is returned if a call on a log limit needs one more (timestamp, cost)
	// pair than log-max-entries allows.
	ErrLogFull = errors.New("log limit holds its maximum number of entries (log-max-entries), use sliding or token for limits this large")

	// ErrSlotsFull is returned if a call would give a key more than maxHolders holders.
	ErrSlotsFull = errors.New("key has the maximum of 4096 holders")

	// ErrHolderID is returned if the id of a holder is empty or longer than maxHolderID
	// bytes.
	ErrHolderID = errors.New("id must be 1 to 128 bytes")

	// ErrSlotTTL is returned if the time to live of slots is not between 1 ns and 100
	// years.
	ErrSlotTTL = errors.New("ttl must be positive and at most 100 years")

	// ErrSlotCost is returned for a call that would take less than one slot.
	ErrSlotCost = errors.New("cost must be at least 1 slot")
)

// Never is the RetryAfter of a call that no wait can help: its cost is above the limit's
// capacity.
const Never int64 = -1

// Decision is the answer to one check of one limit. Times are nanoseconds.
type Decision struct {
	// Allowed is how many units were granted: the cost if the call passes, the available
	// units with AtMost, 0 if the call is denied. For a cost of 0 and for refunds, Allowed
	// does not show whether the call passed; OK does.
	Allowed int64
	OK      bool
	// Limit is the capacity: the burst of a token or leaky bucket, the limit of a window.
	Limit int64
	// Remaining is how many units the next call could take now, rounded down, at least 0.
	Remaining int64
	// RetryAfter is 0 for a call that passed. For a denied call it is the shortest wait
	// in ns after which the same cost would pass, exact to 1 ns, or Never.
	RetryAfter int64
	// ResetAfter is the wait in ns until the limit is full again.
	ResetAfter int64
	// Delay is the wait in ns before the call should proceed, for leaky buckets and WAIT;
	// otherwise 0.
	Delay int64
}

// BindsMoreThan reports whether d, rather than b, is the decision to report for a call. A
// denial ranks before a pass, Never before any other wait, a longer wait before a shorter
// one. Among passes, the decision with less remaining ranks first.
func (d *Decision) BindsMoreThan(b *Decision) bool {
	if d.OK != b.OK {
		return !d.OK
	}
	if d.OK {
		return d.Remaining < b.Remaining
	}
	if d.RetryAfter == Never || b.RetryAfter == Never {
		return d.RetryAfter == Never && b.RetryAfter != Never
	}
	return d.RetryAfter > b.RetryAfter
}

// Options are the parts of a check that apply to the whole call.
type Options struct {
	// Peek returns the answer that the call would get, and writes nothing.
	Peek bool
	// Force makes the call pass and charges the cost, if necessary into debt.
	Force bool
	// AtMost grants the available units, up to the cost. If no unit is available, the
	// call is denied, and RetryAfter is the wait for one unit. Force overrides AtMost.
	AtMost bool
	// Wait also admits calls that can run within this many ns, and charges them now. A call
	// of a token bucket must fit within that time. For a leaky bucket, the first unit of
	// the call must start within that time. A window or log admits only calls that fit now.
	// 0 means that the option is not set: a call of a token bucket must fit now, and a call
	// of a leaky bucket may have any place in the queue.
	Wait int64
	// Debt lets calls take units until -Debt units are left. 0 or less means no debt.
	Debt int64
	// Window is set for a calendar's limit: the window that contains now.
	Window *Window
}

// NoWait, as Options.Wait, also denies a leaky call that would wait at all.
const NoWait = -1

// maxInstant is the last time of the clock for decisions. 2^62 ns is the year 2116, and
// leaves room to add 100 years, the longest span, without wrapping an int64.
const maxInstant = math.MaxInt64 / 2
