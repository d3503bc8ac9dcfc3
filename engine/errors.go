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
	// slots.
	//lint:ignore ST1005 the text that every Redis client knows
	ErrWrongType = errors.New("Operation against a key holding the wrong kind of value")

	// ErrFull is returned when the table has reached its memory bound and nothing may be
	// evicted for a new key.
	ErrFull = shard.ErrFull

	// ErrKeyTooLong is returned for a key above shard.MaxKeyLen bytes, 64 KiB.
	ErrKeyTooLong = shard.ErrKeyTooLong
)

// Errors of putting a call together, before any state is read.
var (
	// ErrDuplicateKey is returned when a chain names one key twice: its two
	// limits would share one state.
	ErrDuplicateKey = errors.New("duplicate key, each limit of a chain needs a key of its own such as user:1:s AND user:1:d")
)

// Errors of IncrEx and Incr. The texts are those of Redis.
var (
	// ErrNotInteger is returned if an integer is added to a counter whose value is a
	// fraction or above an int64.
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
