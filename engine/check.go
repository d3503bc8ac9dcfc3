package engine

import (
	"errors"
	"hash/maphash"

	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/engine/reservation"
	"github.com/headgate-io/headgate/shard"
)

// MaxChecks is how many limits one step of Session.Check may have.
const MaxChecks = reservation.MaxLimits

// Errors of Session.Check.
var (
	// ErrTooManyChecks is returned for a step of more than MaxChecks limits.
	ErrTooManyChecks = errors.New("at most 64 limits of policies in one call")

	// ErrStale is returned if a counter has been charged under a later edit of its limit,
	// which voided earlier use. The caller must look the policy up again. Nothing has
	// changed.
	ErrStale = errors.New("the policy has changed meanwhile")
)

// Ready is a limit that is compiled and interned, so that a check needs no look-up. The
// zero value has no limit.
//
// If a policy is replaced while a check runs, the check finishes with the old limit, so
// it may use a Ready after Release. By then, another limit may have got the same id. So
// a check compares limits by pointer, while it holds the lock of a record that refers to
// the limit. And before the check writes an id into a record, it takes a reference to
// the limit: see Session.claim.
//
// Two alternatives were rejected. If each check took a reference, all threads would
// write the same cache line. If references were released after a delay, no thread could
// be allowed to pause for longer than the delay.
type Ready struct{ it *interned }

// Ready interns a limit of a policy, in database 0, until Release. Only the number of
// policies bounds the number of such limits. It returns the errors of Limit.Validate, and
// ErrLogFull for a log above log-max-entries.
func (e *Engine) Ready(l algo.Limit) (Ready, error) {
	l.DB = 0
	if !l.Algorithm.IsPolicy() {
		return Ready{}, algo.ErrAlgorithm
	}
	if err := e.validate(l); err != nil {
		return Ready{}, err
	}
	return Ready{e.limits.acquireReplicated(l)}, nil
}

// Ready is Engine.Ready for one call: its result needs no Release.
func (s *Session) Ready(l algo.Limit) (Ready, error) {
	l.DB = 0
	if !l.Algorithm.IsPolicy() {
		return Ready{}, algo.ErrAlgorithm
	}
	it, err := s.rule(l)
	return Ready{it}, err
}

// Release gives back the reference that Ready has taken.
func (e *Engine) Release(r Ready) { r.it.refs.Add(-1) }

// Seed returns the seed for hashes of keys: maphash.Bytes(seed, key).
func (e *Engine) Seed() maphash.Seed { return e.table.Seed() }

// Limit returns the limit.
func (r Ready) Limit() algo.Limit { return r.it.Limit }

// Window returns the limit's window.
func (r Ready) Window() int64 { return r.it.Window }

// Check is one limit of a policy in a step.
type Check struct {
	// Key is the counter's key. It is in database 0, also if the session uses another
	// database. Hash is the key's hash by Engine.Seed.
	Key   []byte
	Hash  uint64
	Limit Ready
	// Cost is in units, 0 to 2^62-1; with 0 the call only looks. For slots, Cost is the
	// number of slots that Reserve takes. Check takes no slots, but reports whether there
	// is room.
	Cost int64
	// Wait and Debt are as in Options.
	Wait, Debt int64
	Mode       algo.Mode
	// CountAll also charges calls that this limit or another limit denies. A window counts
	// beyond its limit. A bucket goes into debt, by at most one period. A log keeps its
	// newest units.
	CountAll bool
	// TooMuch makes an enforced limit deny the call with Never: the call asks for more
	// than it may.
	TooMuch bool
	// Window is set for a limit with a calendar: the window that contains the time of the
	// call, by today's rules of the time zone. A counter keeps the end of its window while
	// that window is open.
	Window *algo.Window
	// Penalty is the penalty of an enforced limit, nil for none. Only denials of enforced
	// limits are strikes. Only enforced limits block callers.
	Penalty *Penalty
}

// CheckOptions are the options of a whole step.
type CheckOptions struct {
	// Peek returns the answer that the call would get, and writes nothing.
	Peek bool
	// Force charges every limit, if necessary into debt, even if the caller is blocked. A
	// limit of 0 units still denies.
	Force bool
	// Denied makes the step deny the call even if all limits have room.
	Denied bool
	// If a counter has been charged under a later edit of the policy, Anew resets the
	// counter instead of returning ErrStale. It is for callers that cannot look up the
	// later policy.
	Anew bool
	// Warm is set if WarmChecks has prefetched the counters.
	Warm bool
	// Note notes what a passing call is charged, so that the caller can cancel the charge.
	// It is nil for a charge that nobody cancels.
	Note *Cancellable
}

// Checked is the answer of one limit.
//
// If the call passed, Decision is the limit's own. It may be a denial if the limit is not
// enforced. If the call was denied, Decision is a denial for each limit that denies the
// call. For other limits it is their present state. After a denied call, the numbers of
// all limits include what CountAll has charged.
type Checked struct {
	algo.Decision
	// Over is set if the call passed although this limit, which is not enforced, would
	// have denied it.
	Over bool
	// Err is why a limit was not charged. It is set only if the limit is not enforced, or
	// if it should have counted a denied call or a strike.
	Err error
}

// Verdict is the answer of a step.
type Verdict struct {
	OK bool
	// Binding is the position of the enforced limit to report for the call. If several
	// limits are equal, it is the first:
	//
	//   - If the call passed: the limit with room for the fewest such calls.
	//   - If the call was denied: the limit with the longest wait, because an earlier retry
	//     would be denied again. A limit of slots is reported only if no other limit
	//     denies.
	//   - -1 if no enforced limit denies, or if the call passed and no enforced limit applies.
	//
	// The wait of a denied call is the longest wait of all limits, also of limits that had
	// room until CountAll charged this call.
	Binding int
	// Delay is the longest delay of the enforced limits, in ns.
	Delay int64
	// Penalty is set if a limit blocks the caller. Then Binding is the limit with the
	// longest block, and its decision has the longest wait of all limits.
	Penalty bool
	// Begun is set if this call begins a block, of Binding or of another limit.
	Begun bool
}

// Check decides a call on the limits of policies, as one atomic step. The call passes if
// all enforced limits pass, and is then charged to all limits. A denied call is charged
// to no limit, with two exceptions: a limit with CountAll counts the call, and a limit
// with a penalty counts its own denial as a strike. If the caller is blocked, nothing is
// counted at all. out receives each limit's answer, in order, and must be long enough.
//
// If the key of a counter holds another kind of state, for example a value of SET, the
// first charge replaces that state: see Engine.Replaced. If the policy was edited after a counter was written, the counter
// changes at its next charge:
//
//   - If the edit has changed Resets, the counter starts again from zero.
//   - If the edit has changed Scalings, the counter keeps its used share.
//   - After other edits, the counter keeps its consumed units, as in Decide.
//
// Errors: ErrTooManyChecks, ErrDuplicateKey, ErrKeyTooLong, ErrStale, ErrSealed,
// ErrNotIsolated, ErrUndoFull. Enforced limits also return ErrFull, ErrOverflow,
// ErrLogFull and ErrNoWindow. After an error nothing has changed.
func (s *Session) Check(now int64, checks []Check, o CheckOptions, out []Checked) (Verdict, error) {
	if len(checks) > MaxChecks {
		return Verdict{}, ErrTooManyChecks
	}
	if s.checking == nil {
		s.checking = new(checking)
	}
	st := s.checking
	defer st.forget()
	cold := s.Cold()
	if err := st.prepare(s, checks, cold && !o.Warm); err != nil {
		return Verdict{}, err
	}
	locked, err := st.lock(s, cold && !(o.Warm && st.n <= WarmKeys))
	if err != nil {
		return Verdict{}, err
	}
	var v Verdict
	if s.e.sealed.Load() {
		err = ErrSealed
	} else {
		now = st.advance(s.e.table, now)
		v, err = st.decide(s, now, checks, o, out)
	}
	if locked {
		st.unlock(s)
	}
	if err != nil {
		return Verdict{}, err
	}
	if v.Binding >= 0 {
		w := &st.weighed[v.Binding]
		s.top.observe(now, w.key, w.hash, v.OK)
	}
	return v, nil
}

// Replaced returns the number of keys that held another kind of state and were replaced by
// counters of policies.
func (e *Engine) Replaced() uint64 { return e.replaced.Load() }

// carried converts the state of a live entry, written under another limit, to the limit of
// w. It clears w.live if the counter starts again from zero.
func (s *Session) carried(w *weighed, old *interned, now int64) (algo.State, error) {
	it := w.it
	was, is := &old.Limit, &it.Limit
	fresh := true
	switch {
	case !was.Algorithm.IsPolicy():
		w.foreign = true
	case was.Leased:
		return s.Leases().carried(w, old, now)
	case was.Resets != is.Resets:
		if int16(was.Resets-is.Resets) > 0 && !w.anew { // counts may begin again
			return algo.State{}, ErrStale
		}
	case was.Algorithm == is.Algorithm:
		fresh = false
	}
	if fresh {
		w.live = false
		return algo.State{}, nil
	}
	st := load(w.ent)
	if was.Scalings != is.Scalings {
		st, w.ring = it.Scale(&old.Rule, st, w.list(), now)
		return st, nil
	}
	return it.Adopt(&old.Rule, st, now), nil
}

// find looks up a counter. Its shard must be locked.
func (s *Session) find(w *weighed, sh *shard.Shard, now int64) (algo.State, error) {
	w.ent, w.found = sh.Find(w.hash, w.key)
	if w.live = w.found && !w.ent.Expired(now); !w.live {
		return algo.State{}, nil
	}
	// Compare limits by pointer, not by id: a released id may name another limit by now.
	// The limit that the record names cannot be forgotten while its shard is locked.
	if old := s.e.limits.get(w.ent.Meta()); old != w.it {
		return s.carried(w, old, now)
	}
	w.own = true
	return load(w.ent), nil
}
