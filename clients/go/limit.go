package headgate

import (
	"strconv"
	"time"
)

// Algorithm is how a limit counts. docs/algorithms.md compares them.
type Algorithm uint8

// The algorithms. Only Token, Fixed and Sliding can be leased; a limit of Leaky or Log asks
// the server for each call.
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

// OnFailure is what answers a call while the server is away.
type OnFailure uint8

// The failure policies.
const (
	// Local decides by a bucket of this process, with a share of the limit: the default.
	Local OnFailure = iota
	// Open admits.
	Open
	// Closed denies, and asks to try again in a second.
	Closed
)

// String returns local, open or closed.
func (f OnFailure) String() string {
	switch f {
	case Local:
		return "local"
	case Open:
		return "open"
	default:
		return "closed"
	}
}

// Limit is how many units a key may use. Every process must use the same limit for a key.
type Limit struct {
	// Units are available per Period: 0 to 2^62 - 1. 0 denies every call.
	Units int64
	// Period is 1 ms to 100 years. Token and Leaky refill at most 10^9 units per second.
	Period time.Duration
	// Algorithm is Token if it is not set.
	Algorithm Algorithm
	// Burst is the capacity of Token and Leaky, in units. 0 means Units.
	Burst int64
	// OnFailure answers while the server is away. It is Local if it is not set.
	OnFailure OnFailure
	// NoLease makes the client ask the server for each call, however busy the key is.
	NoLease bool
}

// Policy is the name of a policy on the server.
type Policy struct {
	Name string
	// OnFailure answers while the server is away. Local needs a Limit; without one the
	// policy is Open.
	OnFailure OnFailure
	// Limit stands for the policy while the server is away. Each set of attributes has a
	// bucket of its own.
	Limit Limit
	// Leased lets the client take leases of the policy, as of a Limit. Decisions by a lease,
	// and replies to requests for one, have no Name, Reason, Hold and Limits. A penalty does
	// not count what the client denies.
	Leased bool
}

// onFailure returns what answers while the server is away.
func (p *Policy) onFailure() OnFailure {
	if p.OnFailure == Local && p.Limit == (Limit{}) {
		return Open
	}
	return p.OnFailure
}

// PerSecond returns a token bucket of units per second, with a capacity of as many.
func PerSecond(units int64) Limit { return Limit{Units: units, Period: time.Second} }

// PerMinute returns a token bucket of units per minute, with a capacity of as many.
func PerMinute(units int64) Limit { return Limit{Units: units, Period: time.Minute} }

// leasable reports whether the server gives leases of the limit.
func (l Limit) leasable() bool {
	return !l.NoLease && l.Units > 1 && (l.Algorithm == Token || l.Algorithm == Fixed || l.Algorithm == Sliding)
}

// arguments appends what commands say of a limit after the key.
func (l Limit) arguments(args []any) []any {
	return append(args, l.Units, spell(l.Period))
}

// capacity returns how many units the limit has when it is full.
func (l Limit) capacity() int64 {
	if l.Burst > 0 && (l.Algorithm == Token || l.Algorithm == Leaky) {
		return l.Burst
	}
	return l.Units
}

// Window returns the time in which the limit admits its capacity: the period, or the time in
// which a bucket refills.
func (l Limit) Window() time.Duration {
	if l.Units > 0 && (l.Algorithm == Token || l.Algorithm == Leaky) {
		return time.Duration(min(float64(l.capacity())/float64(l.Units)*float64(l.Period), 1<<62))
	}
	return l.Period
}

// lasting returns how long a charge counts at most.
func (l Limit) lasting() time.Duration {
	switch {
	case l.Units < 1:
		return 0
	case l.Algorithm == Sliding:
		return 2 * l.Period
	}
	return l.Window()
}

// spell writes a duration: whole seconds or milliseconds if it can.
func spell(d time.Duration) string {
	switch {
	case d%time.Second == 0:
		return strconv.FormatInt(int64(d/time.Second), 10) + "s"
	case d%time.Millisecond == 0:
		return strconv.FormatInt(int64(d/time.Millisecond), 10) + "ms"
	}
	return d.String()
}

// options appends the options of the limit.
func (l Limit) options(args []any) []any {
	if l.Algorithm != Token {
		args = append(args, "ALGORITHM", l.Algorithm.String())
	}
	if l.Burst != 0 && l.Burst != l.Units {
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
	// Fallback means that the server was away, and OnFailure decided.
	Fallback
	// Backstopped means that a Backstop denied the call before anything was asked.
	Backstopped
)

var sources = [...]string{"server", "lease", "denied", "fallback", "backstop"}

// String returns server, lease, denied, fallback or backstop.
func (s Source) String() string {
	if int(s) < len(sources) {
		return sources[s]
	}
	return strconv.Itoa(int(s))
}

// Decision is the answer to a call.
type Decision struct {
	// Allowed reports whether the call may go on. Its units are charged then.
	Allowed bool
	// Degraded reports whether a failure policy answered: the client's, or the server's
	// while it has no leader. RESP2 does not tell the server's.
	Degraded bool
	// Source says who decided.
	Source Source
	// Limit is the capacity, in units. It is -1 if no limit stands for the call: no limit of
	// a policy applies, or Open or Closed answered.
	Limit int64
	// Remaining is how many units are left, at least 0, or -1 as Limit is. If Source is not
	// Server, it is what the client holds plus what was left when the server last answered.
	Remaining int64
	// RetryAfter is 0 if the call is allowed. Otherwise it is the wait after which the same
	// call may pass. It is -1 if no wait helps: the cost is above the capacity.
	RetryAfter time.Duration
	// ResetAfter is the wait until the limit is full again.
	ResetAfter time.Duration
	// Delay is the wait before an allowed call should go on. It is above 0 for Leaky only.
	Delay time.Duration

	// Name is that of the policy's limit that stands for the call. It is empty if none does.
	Name string
	// Reason says why a policy passes or denies the call: ok, none, limit, penalty, deny,
	// allow or missing. docs/commands.md explains them.
	Reason string
	// Hold names what the policy holds for the call, or is empty.
	Hold string
	// Limits are the limits of the policy that apply, by name.
	Limits map[string]LimitVerdict
}

// LimitVerdict is what one limit of a policy says of a call.
type LimitVerdict struct {
	Allowed    bool
	Limit      int64
	Remaining  int64
	RetryAfter time.Duration // -1 if no wait helps
	ResetAfter time.Duration
	Delay      time.Duration
	Cost       int64         // of the call to this limit
	Mode       string        // enforce, soft or shadow
	Status     int           // of HTTP: 200, 429, 503 or 403
	Window     time.Duration // in which the limit admits its capacity; 0 if it has none
}
