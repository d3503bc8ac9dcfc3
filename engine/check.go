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

// These errors can be returned by Session.Check.
var (
	// ErrTooManyChecks is returned for a step of more than MaxChecks limits.
	ErrTooManyChecks = errors.New("at most 64 limits of policies in one call")

	// ErrStale is returned where a counter has been charged under a later edit
	// of its limit, which made void what was consumed: the caller has to look
	// the policy up again. Nothing has changed.
	ErrStale = errors.New("the policy has changed meanwhile")
)

// Ready is a limit that is compiled and interned, so that a check of it looks
// nothing up. The zero value is none.
//
// It may be used after Release: a check that has read a policy just before it
// was replaced finishes with it.
type Ready struct{ it *interned }

// Ready interns a limit of a policy, in database 0, until Release. Errors: those
// of Limit.Validate, and ErrLogFull for a log above log-max-entries. The number
// of such limits has no bound but that of policies.
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

// Ready is Engine.Ready for one call: what it returns need not be released.
func (s *Session) Ready(l algo.Limit) (Ready, error) {
	l.DB = 0
	if !l.Algorithm.IsPolicy() {
		return Ready{}, algo.ErrAlgorithm
	}
	it, err := s.rule(l)
	return Ready{it}, err
}

// Release gives back what Ready has taken.
func (e *Engine) Release(r Ready) { r.it.refs.Add(-1) }

// Seed is what the hash of a key is made with: maphash.Bytes(seed, key).
func (e *Engine) Seed() maphash.Seed { return e.table.Seed() }

// Limit returns the limit.
func (r Ready) Limit() algo.Limit { return r.it.Limit }

// Window is that of the limit.
func (r Ready) Window() int64 { return r.it.Window }

// Check is one limit of a policy in a step.
type Check struct {
	// Key is the counter's, in database 0 whatever the session's is; Hash is its
	// hash by Engine.Seed.
	Key   []byte
	Hash  uint64
	Limit Ready
	// Cost is in units, 0 to 2^62-1; 0 looks. Of slots it is how many Reserve takes;
	// Check takes none, and tells whether there is room.
	Cost int64
	// Wait and Debt are those of Options.
	Wait, Debt int64
	Mode       algo.Mode
	// CountAll charges calls that this limit or another one denies, too: a window
	// counts on, a bucket goes into debt by at most one period, a log keeps its
	// newest units.
	CountAll bool
	// TooMuch: the call asks for more than it may, so that the limit, which is
	// enforced, denies it, and no wait ends that.
	TooMuch bool
	// Window is of a calendar's limit: the window that contains the time of the
	// call, by the rules of today. A counter whose window is open keeps its end.
	Window *algo.Window
	// Penalty is that of an enforced limit, nil for none. Only denials of limits that
	// are enforced are strikes, and only they block.
	Penalty *Penalty
}

// CheckOptions are the parts of a step that belong to the whole of it.
type CheckOptions struct {
	// Peek answers what the call would get, and writes nothing.
	Peek bool
	// Denied: something else than a limit denies the call.
	Denied bool
	// Anew: a counter that has been charged under a later edit begins anew, in
	// place of ErrStale: there is no later policy to look up.
	Anew bool
	// Warm: the counters have been asked for by WarmChecks.
	Warm bool
}

// Checked is what one limit says.
//
// Of a call that passed it is the limit's decision, which of a limit that is not
// enforced may be a denial. Of one that was denied it is the decision of a limit
// that denies it; of the others what they hold. What CountAll has charged is in the
// numbers of both.
type Checked struct {
	algo.Decision
	// Over: the call has passed, and this limit, which is not enforced, would have
	// denied it.
	Over bool
	// Err is why a limit that is not enforced, or that was to count a denied call or
	// a strike, was not charged.
	Err error
}

// Verdict is what a step says.
type Verdict struct {
	OK bool
	// Binding is the position of the enforced limit that stands for the call: of
	// a denied one the one with the longest wait, since an earlier retry would be
	// denied again, and slots only where no other limit denies; of one that passed the one that has room for the fewest such
	// calls; ties to the first. It is -1 if no enforced limit denies or, of a call
	// that passed, applies. Of a denied call it says the longest wait of all limits:
	// CountAll may have filled one that had room.
	Binding int
	// Delay is the longest delay of the enforced limits, ns.
	Delay int64
	// Penalty: a limit blocks the caller. Then Binding is, of those that do, the one
	// that does for the longest, and what it says is to wait as long as any limit of
	// the call.
	Penalty bool
	// Begun: the block of Binding, or of another limit, begins with this call.
	Begun bool
}

// Check decides a call on the limits of policies, as one atomic step: it passes
// if all that are enforced pass, and then is charged to all of them; a call that
// is denied takes nothing, but for CountAll and strikes. Of a caller who is blocked
// it takes nothing at all. out receives what each limit says,
// in order; it must have room for all.
//
// The counters are of kinds of their own. What else lies under the name of one is
// replaced by the first charge, and counted: see Engine.Replaced. Under an edited
// limit a counter is adopted as by Decide, if neither Resets nor Scalings have
// changed; otherwise it begins anew, or keeps its share. That happens with its
// next charge.
//
// Errors: ErrTooManyChecks, ErrDuplicateKey, ErrKeyTooLong, ErrStale, ErrSealed,
// ErrNotIsolated, ErrUndoFull, and, of enforced limits, ErrFull, ErrOverflow,
// ErrLogFull, ErrNoWindow. Nothing is changed then.
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

// Replaced returns how many keys that were no counters of policies have made
// room for one.
func (e *Engine) Replaced() uint64 { return e.replaced.Load() }

// carried returns the state of a live entry, which was written under another
// limit, as it is under that of w; w is not live any more where it begins anew.
func (s *Session) carried(w *weighed, old *interned, now int64) (algo.State, error) {
	it := w.it
	was, is := &old.Limit, &it.Limit
	fresh := true
	switch {
	case !was.Algorithm.IsPolicy():
		w.foreign = true
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

// find looks a counter up. Its shard must be locked.
func (s *Session) find(w *weighed, sh *shard.Shard, now int64) (algo.State, error) {
	w.ent, w.found = sh.Find(w.hash, w.key)
	if w.live = w.found && !w.ent.Expired(now); !w.live {
		return algo.State{}, nil
	}
	// Not by id: one that was released may be another limit's by now. What the
	// record names cannot be, while its shard is locked.
	if old := s.e.limits.get(w.ent.Meta()); old != w.it {
		return s.carried(w, old, now)
	}
	w.own = true
	return load(w.ent), nil
}
