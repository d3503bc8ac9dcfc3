// Package history records what clients of a limiter saw: every call with the times it was sent and answered, its cost,
// and its outcome. The outcome may be unknown.
//
// A History is the evidence that the checkers of package oracle judge. A Recorder belongs to one goroutine; Merge joins
// what several of them have recorded.
package history

import (
	"math"
	"slices"
	"time"
)

// Outcome is what a client knows about a call.
type Outcome uint8

const (
	// Unknown: the call was sent, and there is no answer, or one that leaves it open. It may have been executed, and may
	// still be executed later.
	Unknown Outcome = iota
	// Admitted and Denied: the limiter decided.
	Admitted
	Denied
	// Refused: the call was certainly not executed. It was not sent, or the answer says so.
	Refused
)

var outcomeNames = [...]string{"unknown", "admitted", "denied", "refused"}

func (o Outcome) String() string { return outcomeNames[o] }

// Kind is what a call asked for.
type Kind uint8

const (
	// Limit charges Cost to Key, gives it back if negative, and looks if it is 0.
	Limit Kind = iota
	// Reset forgets what Key has consumed. Other is which of the commands that do so is sent.
	Reset
	// Acquire takes, and Release gives back, the slot of the holder Other of Key.
	Acquire
	Release
	// Transfer charges 1 to Key and gives 1 back to Other, both or neither.
	Transfer
	// Pair adds 1 to Key and 1 to Other in a transaction (EXEC), both or neither.
	Pair
	// Check asks the policy of Key's Caller, and charges Cost units to all of its limits, or to none.
	Check
)

var kindNames = [...]string{"limit", "reset", "acquire", "release", "transfer", "pair", "check"}

func (k Kind) String() string { return kindNames[k] }

// Double reports whether a call has a second key in Other.
func (k Kind) Double() bool { return k == Transfer || k == Pair }

// Forever is the end of a call whose outcome is unknown, for checkers that let it take effect at any later time.
const Forever = math.MaxInt64

// Call is one call. Times are ns of the client's monotonic clock since the start of the run.
type Call struct {
	Due   int64 // when the plan wanted it sent
	Late  int64 // how much later the machine ran the load that was asleep until then, and how long it stood still or was slow (see StoodStill)
	Start int64 // when it was sent
	End   int64 // when its outcome was known, or the client gave up
	Key   uint32
	Other uint32 // holder or second key: see Kind
	Cost  int32
	Limit int32 // the limit that the call stated

	Remaining int32 // as answered; only if Admitted or Denied
	Kind      Kind
	Outcome   Outcome
	Node      uint8 // the node that the client was connected to

	// Version is the version of the policy that decided a Check. Binding is the place, from 1, of the limit that stands
	// for it; once it is decided, its Limit and Remaining are those of that limit.
	Version uint32
	Binding uint8

	// Slow: the script was to take longer than a server's loop has for one.
	Slow bool

	// Local: a node answered by its failure policy, without the leader.
	Local bool
}

// Decided reports whether the limiter has answered, by a leader or by its failure policy.
func (c *Call) Decided() bool { return c.Outcome == Admitted || c.Outcome == Denied }

// Latency is the time to the answer from when the call was due, or from when the machine ran the load. The time in
// which the machine stood still is left out. The time counts in which a server held the load up, so that it could not
// send.
func (c *Call) Latency() time.Duration { return time.Duration(c.End - c.Due - c.Late) }

// Algorithm is a limit's rule, by its name in RL.LIMIT.
type Algorithm string

// The algorithms that runs use.
const (
	Fixed Algorithm = "fixed" // always with ALIGN first
	Token Algorithm = "token"
	Log   Algorithm = "log"
	Leaky Algorithm = "leaky"

	// Sliding always has ALIGN first: until the first period is over it is exact.
	Sliding Algorithm = "sliding"
	Slots   Algorithm = "slots" // RL.ACQUIRE; Period is the time to live of the slots
)

// Key is a limited key of a run.
type Key struct {
	Name      string
	Algorithm Algorithm
	Limit     int32 // what calls state unless they change it
	Period    time.Duration

	// Command asks for the limit; RL.LIMIT if empty. CL.THROTTLE, THROTTLE and GCRA are Token, INCREX is Fixed. Package load
	// has further ones: commands that count, which are Fixed, and scripts.
	Command string

	// Extra is how many units calls may take beyond those that are left: with the option Debt as DEBT, with Wait as a
	// WAIT of the time in which they refill.
	Option Option
	Extra  int32

	// Free: calls give back, reset or change the limit, so that only a model of the whole history can judge it.
	Free bool

	// Unjudged: the limiter may forget the key at any time, so that no check of its limit applies.
	Unjudged bool

	// Apart: the measures of the other keys leave out how soon its calls are answered, and how many are not.
	Apart bool

	// Caller is who its Checks are about; nil for a key without a policy.
	Caller *Caller
}

// Option is an option of RL.LIMIT that all calls of a key have.
type Option uint8

// The options.
const (
	None Option = iota
	Debt
	Wait
	AtMost // calls get what is there, up to their cost
)

// Refill is how long the key needs to regain one unit; for Fixed, all units come back after it, for Log each by itself.
func (k *Key) Refill() time.Duration {
	if k.Algorithm == Token || k.Algorithm == Leaky {
		return k.Period / time.Duration(k.Limit)
	}
	return k.Period
}

// Static reports whether no unit comes back within a run of length d by the passing of time.
func (k *Key) Static(d time.Duration) bool { return k.Algorithm != Slots && k.Refill() > d }

// Event is something that was done to the cluster, or that it did.
type Event struct {
	At   int64 // ns since the start of the run
	Text string
}

// History is a run as its clients saw it.
type History struct {
	Keys   []Key
	Calls  []Call // by Start
	Events []Event
	Length time.Duration

	Policies []Policy // that there are checks of
	Edits    []Edit   // of policies, by Start
	Seen     []Sight  // of versions
	Kept     []Sight  // what HISTORY had in the end, of each policy the latest first
}

// ByKey returns the calls of each key, by Start; those with two keys are left out. The slices alias one copy of the calls.
func (h *History) ByKey() [][]Call {
	counts := make([]int, len(h.Keys))
	total := 0
	for i := range h.Calls {
		if !h.Calls[i].Kind.Double() {
			counts[h.Calls[i].Key]++
			total++
		}
	}
	all, out := make([]Call, total), make([][]Call, len(h.Keys))
	at := 0
	for k, n := range counts {
		out[k] = all[at : at : at+n]
		at += n
	}
	for _, c := range h.Calls {
		if !c.Kind.Double() {
			out[c.Key] = append(out[c.Key], c)
		}
	}
	return out
}

// Apart reports whether a call is about a key that is Apart.
func (h *History) Apart(c *Call) bool { return h.Keys[c.Key].Apart }

// Count returns the number of calls per outcome.
func (h *History) Count() (n [4]int) {
	for i := range h.Calls {
		n[h.Calls[i].Outcome]++
	}
	return n
}

// StoodStill adds the time from one to another, in which the machine ran nobody, to what calls in flight were late for its
// sake.
func (h *History) StoodStill(from, to int64) {
	for i := range h.Calls {
		c := &h.Calls[i]
		if both := min(c.End, to) - max(c.Due+c.Late, from); both > 0 {
			c.Late += both
		}
	}
}

// Recorder collects the calls of one goroutine.
type Recorder struct{ calls []Call }

// Add records a call.
func (r *Recorder) Add(c Call) { r.calls = append(r.calls, c) }

// Merge sorts the calls of several recorders into h.
func (h *History) Merge(recorders ...*Recorder) {
	for _, r := range recorders {
		h.Calls = append(h.Calls, r.calls...)
	}
	slices.SortFunc(h.Calls, func(a, b Call) int {
		switch {
		case a.Start < b.Start:
			return -1
		case a.Start > b.Start:
			return 1
		}
		return 0
	})
}
