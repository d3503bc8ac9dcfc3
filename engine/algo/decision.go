package algo

import (
	"errors"
	"math"
)

// These errors can be returned by a decision; nothing is to be written then. Their texts
// carry no prefix: the front adds it.
var (
	// ErrOverflow is returned when a forced charge would take a key's state
	// past what can be stored: a TAT after latestInstant, a count above
	// MaxCount.
	ErrOverflow = errors.New("cost would overflow the state of the key")

	// ErrLogFull is returned when a call on a log limit needs one more
	// (timestamp, cost) pair than log-max-entries allows.
	ErrLogFull = errors.New("log limit holds its maximum number of entries (log-max-entries), use sliding or token for limits this large")

	// ErrSlotsFull is returned when a call would give a key more than
	// maxHolders holders.
	ErrSlotsFull = errors.New("key has the maximum of 4096 holders")

	// ErrHolderID is returned for the id of a holder that is empty or longer than
	// maxHolderID bytes.
	ErrHolderID = errors.New("id must be 1 to 128 bytes")

	// ErrSlotTTL is returned for slots whose time to live is not between
	// 1 ns and 100 years.
	ErrSlotTTL = errors.New("ttl must be positive and at most 100 years")

	// ErrSlotCost is returned for a call that would take less than one slot.
	ErrSlotCost = errors.New("cost must be at least 1 slot")
)

// Never is the RetryAfter of a call that no wait can help: its cost is above
// the limit's capacity.
const Never int64 = -1

// Decision is the answer to one check of one limit. Times are nanoseconds.
type Decision struct {
	// Allowed is how many units were granted: the cost when the call passes,
	// the part that was there with AtMost, 0 when it is denied. OK tells a
	// pass from a denial; the two differ for a cost of 0 and for refunds.
	Allowed int64
	OK      bool
	// Limit is the capacity: the burst of a token or leaky bucket, the limit
	// of a window.
	Limit int64
	// Remaining is how many units a call right now could still take, rounded
	// down, never below 0.
	Remaining int64
	// RetryAfter is 0 for a call that passed, the wait in ns after which this
	// same cost would pass (and 1 ns before which it would be denied), or
	// Never.
	RetryAfter int64
	// ResetAfter is the wait in ns until the limit is full again.
	ResetAfter int64
	// Delay is the wait in ns before the call should proceed: for leaky
	// buckets and WAIT. 0 otherwise.
	Delay int64
}

// BindsMoreThan reports whether d stands for a call before b: a denial before a pass,
// Never before any wait, the longer wait; of passes the one with less left.
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

// Options are the parts of a check that belong to the whole call.
type Options struct {
	// Peek answers what the call would get and writes nothing.
	Peek bool
	// Force charges the cost even into debt; the call always passes.
	Force bool
	// AtMost grants what is there, up to the cost; with nothing there the call
	// is denied, and RetryAfter is when one unit is there. Force overrides it.
	AtMost bool
	// Wait admits, charged now, what can run within this many ns: a token
	// call that would pass by then, a leaky one whose first unit starts by
	// then. A window or log admits what fits now. 0 is none: a token call that
	// passes now, a leaky one wherever it stands in the queue.
	Wait int64
	// Debt admits down to -Debt units. 0 or less is none.
	Debt int64
	// Window is of a calendar's limit: the window that contains now.
	Window *Window
}

// NoWait, as Options.Wait, also denies a leaky call that would wait at all.
const NoWait = -1

// maxInstant is where the clock ends for decisions: 2^62 ns is the year 2116,
// and leaves room to add a bounded span, 100 years, without wrapping an int64.
const maxInstant = math.MaxInt64 / 2
