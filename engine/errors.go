package engine

import (
	"errors"

	"github.com/headgate-io/headgate/shard"
)

// These errors can be returned by a decision on a key. Their texts carry no
// prefix: the front adds ERR, WRONGTYPE or OOM.
var (
	// ErrWrongType is returned when the key holds another kind of state than
	// the call needs: a key holds one algorithm's state, or a counter, or
	// leases.
	//lint:ignore ST1005 the text that every Redis client knows
	ErrWrongType = errors.New("Operation against a key holding the wrong kind of value")

	// ErrOverflow is returned when a forced charge would take a key's state
	// past what can be stored: a TAT after latestInstant, a count above
	// maxCount. Nothing is written.
	ErrOverflow = errors.New("cost would overflow the state of the key")

	// ErrLogFull is returned when a call on a log limit needs one more
	// (timestamp, cost) pair than log-max-entries allows. Nothing is written.
	ErrLogFull = errors.New("log limit holds its maximum number of entries (log-max-entries), use sliding or token for limits this large")

	// ErrSlotsFull is returned when a call would hold more than maxLeases
	// leases on one key. Nothing is written.
	ErrSlotsFull = errors.New("key holds the maximum of 4096 leases")

	// ErrFull is returned when the table has reached its memory bound and
	// nothing may be evicted for a new key.
	ErrFull = shard.ErrFull

	// ErrKeyTooLong is returned for a key above shard.MaxKeyLen bytes, 64 KiB.
	ErrKeyTooLong = shard.ErrKeyTooLong
)

// These errors can be returned when a call is put together, before any state
// is read.
var (
	// ErrDuplicateKey is returned when a chain names one key twice: its two
	// limits would share one state.
	ErrDuplicateKey = errors.New("duplicate key, each limit of a chain needs a key of its own such as user:1:s AND user:1:d")

	// ErrLeaseID is returned for a lease id that is empty or longer than
	// maxLeaseID bytes.
	ErrLeaseID = errors.New("lease id must be 1 to 128 bytes")

	// ErrLeaseTTL is returned for a lease whose time to live is not between
	// 1 ns and 100 years.
	ErrLeaseTTL = errors.New("ttl must be positive and at most 100 years")

	// ErrLeaseCost is returned for a lease that would hold less than one unit.
	ErrLeaseCost = errors.New("cost of a lease must be at least 1")
)

// These errors are returned by Limit.Validate.
var (
	errAlgorithm      = errors.New("unknown algorithm")
	errDatabase       = errors.New("DB index is out of range")
	errLimit          = errors.New("limit must be 0 or more")
	errLimitTooLarge  = errors.New("limit is too large")
	errPeriod         = errors.New("period must be positive and at most 100 years")
	errPeriodCalendar = errors.New("the windows of a calendar have no period")
	errBurst          = errors.New("burst must be at least 1")
	errBurstAlgorithm = errors.New("burst applies to token and leaky only")
	errAlignAlgorithm = errors.New("align applies to fixed and sliding only")
	errEpoch          = errors.New("only limits of policies are reset and scaled")
	errRounding       = errors.New("rounding applies to token and leaky only")
	errRate           = errors.New("rate must be at most 1000000000 per second")
	errCapacity       = errors.New("burst must refill within 100 years at this rate")
)

// These errors can be returned by IncrEx and Incr. The texts are those of Redis.
var (
	// ErrNotInteger is returned when a counter is to grow by an integer and
	// its value is a fraction or above an int64.
	ErrNotInteger = errors.New("value is not an integer or out of range")

	// ErrNotFloat is returned for a number that ParseFloat cannot read.
	ErrNotFloat = errors.New("value is not a valid float")

	// ErrInfiniteIncrement is returned for an increment of inf.
	ErrInfiniteIncrement = errors.New("BYFLOAT increment cannot be Infinity")

	// ErrBounds is returned for bounds that nothing can satisfy.
	ErrBounds = errors.New("LBOUND can't be greater than UBOUND")

	// ErrOnlyNew is returned for ENX with nothing to set.
	ErrOnlyNew = errors.New("ENX flag requires an expiration")

	// ErrIncrOverflow is returned when saturating would change a counter by
	// more than an int64 holds.
	ErrIncrOverflow = errors.New("applied increment would overflow")

	// ErrIncrDecrOverflow is returned when an increment would take a counter
	// beyond an int64.
	ErrIncrDecrOverflow = errors.New("increment or decrement would overflow")

	// ErrIncrInfinity is returned when saturating would change a counter by
	// more than a long double holds, or make it infinite.
	ErrIncrInfinity = errors.New("applied increment would be Infinity")
	// ErrInfinite is returned for adding to a counter that is infinite.
	ErrInfinite = errors.New("value cannot be Infinity")
)
