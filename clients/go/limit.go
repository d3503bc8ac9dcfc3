package headgate

import (
	"strconv"
	"time"
)

// Algorithm is how a limit counts. docs/algorithms.md compares them.
type Algorithm uint8

// The algorithms. Only Token, Fixed and Sliding can be leased; a limit with another one
// asks the server for each call.
const (
	Token   Algorithm = iota // a bucket that refills evenly: the default
	Leaky                    // a queue that empties evenly; see Decision.Delay
	Fixed                    // windows that begin at multiples of the period
	Sliding                  // the current window, and a part of the one before
	Log                      // each call is remembered for a period
)

var algorithms = [...]string{"token", "leaky", "fixed", "sliding", "log"}

// String returns the name that the server knows the algorithm by.
func (a Algorithm) String() string {
	if int(a) < len(algorithms) {
		return algorithms[a]
	}
	return strconv.Itoa(int(a))
}

// Limit is how many units a key may use. Every process must use the same limit for a key.
type Limit struct {
	// Units are available per Period: 0 to 2^62 - 1. 0 denies every call.
	Units int64
	// Period is 1 ns or more. Token and Leaky refill at most 10^9 units per second.
	Period time.Duration
	// Algorithm is Token if it is not set.
	Algorithm Algorithm
	// Burst is the capacity of Token and Leaky, in units. 0 means Units.
	Burst int64
}

// PerSecond returns a token bucket of units per second, with a capacity of as many.
func PerSecond(units int64) Limit { return Limit{Units: units, Period: time.Second} }

// PerMinute returns a token bucket of units per minute, with a capacity of as many.
func PerMinute(units int64) Limit { return Limit{Units: units, Period: time.Minute} }

// leasable reports whether the server gives leases of the limit.
func (l Limit) leasable() bool {
	return l.Units > 1 && (l.Algorithm == Token || l.Algorithm == Fixed || l.Algorithm == Sliding)
}

// arguments appends what commands say of a limit after the key.
func (l Limit) arguments(args []any) []any {
	return append(args, l.Units, l.Period.String())
}

// options appends the options of the limit.
func (l Limit) options(args []any) []any {
	if l.Algorithm != Token {
		args = append(args, "ALGORITHM", l.Algorithm.String())
	}
	if l.Burst != 0 {
		args = append(args, "BURST", l.Burst)
	}
	return args
}

// KeyLimit is one limit of a call to Client.All.
type KeyLimit struct {
	Key   string
	Limit Limit
	// Cost is how many units of this limit the call takes, as in Client.Allow.
	Cost int64
}

// Source says who decided.
type Source uint8

const (
	// Server means that the server answered.
	Server Source = iota
	// Lease means that the client admitted the call from units that it holds.
	Lease
	// Denied means that the client denied the call without asking. The server had denied a
	// call like it, or had nothing left, less than a second ago.
	Denied
)

// String returns server, lease or denied.
func (s Source) String() string {
	switch s {
	case Server:
		return "server"
	case Lease:
		return "lease"
	default:
		return "denied"
	}
}

// Decision is the answer to a call.
type Decision struct {
	// Allowed reports whether the call may go on. Its units are charged then.
	Allowed bool
	// Limit is the capacity, in units.
	Limit int64
	// Remaining is how many units are left, at least 0. If Source is not Server, it is what
	// the client holds plus what was left when the server last answered.
	Remaining int64
	// RetryAfter is 0 if the call is allowed. Otherwise it is the wait after which the same
	// call may pass. It is -1 if no wait helps: the cost is above the capacity.
	RetryAfter time.Duration
	// ResetAfter is the wait until the limit is full again.
	ResetAfter time.Duration
	// Delay is the wait before an allowed call should go on. It is above 0 for Leaky only.
	Delay time.Duration
	// Source says who decided.
	Source Source
}
