package checks

import (
	"errors"
	"fmt"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/engine/reservation"
	"github.com/headgate-io/headgate/policy"
	"github.com/headgate-io/headgate/server/command"
)

// Trial decides calls on policies as RL.CHECK does, on counters of its own and at the times
// that it is given. It belongs to one goroutine.
type Trial struct {
	set     *policy.Set
	call    command.Call
	mem     *checkMemory
	settler settler
	// asked decides requests of descriptors.
	asked descriptorMemory
}

// trialShards are enough for a handful of callers.
const trialShards = 8

// NewTrial returns a trial of the policies of a file, with empty counters. Secret
// attributes are hashed with a key of its own. It returns an error if the set is invalid or
// has a limit that no server takes.
func NewTrial(records []*policy.Record) (*Trial, error) {
	e := engine.New(engine.Config{Shards: trialShards})
	editor := policy.NewSet(policy.Config{Seed: e.Seed(), Secret: []byte("trial")}).Edit()
	for _, rec := range records {
		editor.Set(rec, policy.Meta{Version: 1})
	}
	set, err := editor.Finish(1)
	if err != nil {
		return nil, err
	}
	t := &Trial{set: set}
	t.call.Sess = e.NewSession()
	t.call.Limits = t.call.Sess
	t.mem = newMemory()
	for _, name := range set.Names() {
		p := set.Policy([]byte(name))
		for l, n := range p.AllNumbers() {
			if n.Handle, err = e.Ready(EngineLimit(l, n)); err != nil {
				return nil, fmt.Errorf("policy %s, limit %s: %w", name, l.Name, err)
			}
		}
	}
	return t, nil
}

// TrialCall is the arguments of RL.CHECK.
type TrialCall struct {
	Policy     string
	Attributes []policy.Pair // Hashed does not count
	Units      int64         // of COST
}

// TrialAnswer is the reply of RL.CHECK.
type TrialAnswer struct {
	Allowed bool
	Reason  string
	// Name is the limit that stands for the call. It is empty if no limit applied; the
	// Decision's numbers are then -1.
	Name string
	algo.Decision
	// Status is the HTTP status of the answer to the call.
	Status int
	Limits []TrialLimit
	// Hold is the hold of a call that took slots, "" for none.
	Hold string
}

// TrialLimit is the part of the reply about one limit that applies.
type TrialLimit struct {
	Name string
	algo.Decision
	Cost int64
	Mode policy.Mode
	// Over reports that the call has passed although this limit would have denied it.
	Over bool
}

// ErrNoPolicy is returned for a policy that does not exist.
var ErrNoPolicy = errors.New("there is no such policy")

// Check decides a call at a time, in Unix ns, which must not go back. It returns
// ErrNoPolicy and the errors of RL.CHECK.
func (t *Trial) Check(now int64, c TrialCall) (TrialAnswer, error) {
	p, err := t.begin(now, &c)
	if err != nil {
		return TrialAnswer{}, err
	}
	r := &t.mem.reserver
	r.begin(t.call.Sess, &t.call, t.mem, p)
	if p.Slots && t.mem.takesSlots() {
		r.req.Keep, r.req.Version = p.Hold.Keep, p.Version
		r.name()
	}
	t.call.Limits = r
	defer func() { t.call.Limits = t.call.Sess }()
	var a answer
	if err := t.mem.decide(&t.call, p, engine.CheckOptions{}, &a); err != nil {
		return TrialAnswer{}, err
	}
	told := a.told()
	told.Hold = string(r.hold())
	return told, nil
}

// Commit settles the hold of a call that took slots, as RL.COMMIT with these arguments, and
// returns its errors.
func (t *Trial) Commit(now int64, hold string, args ...string) error {
	x := &t.settler
	x.begin(func() *policy.Set { return t.set }, []byte(hold), now)
	defer x.end()
	words := make([][]byte, len(args))
	for i := range args {
		words[i] = []byte(args[i])
	}
	if err := x.parse(words); err != nil {
		return err
	}
	_, err := t.call.Sess.Settle(now, holdKey([]byte(hold)), x.how)
	return err
}

// Cancel settles the hold of a call that took slots, as RL.CANCEL does. It returns errors
// of the engine.
func (t *Trial) Cancel(now int64, hold string) error {
	_, err := t.call.Sess.Settle(now, holdKey([]byte(hold)), engine.Settlement{State: reservation.Cancelled})
	return err
}

// Explain returns for each limit of the policy whether it applies to a call, and why.
func (t *Trial) Explain(now int64, c TrialCall) ([]policy.Finding, error) {
	if _, err := t.begin(now, &c); err != nil {
		return nil, err
	}
	return t.mem.call.Explain(now), nil
}

// begin matches a call.
func (t *Trial) begin(now int64, c *TrialCall) (*policy.Policy, error) {
	p := t.set.Policy([]byte(c.Policy))
	if p == nil {
		return nil, ErrNoPolicy
	}
	t.call.Now = now
	t.mem.args = checkArgs{units: c.Units}
	for _, pair := range c.Attributes {
		t.mem.args.pairs = append(t.mem.args.pairs, []byte(pair.Name), []byte(pair.Value))
	}
	return p, t.mem.match(p, now)
}

// told copies the answer.
func (a *answer) told() TrialAnswer {
	t := TrialAnswer{Allowed: a.ok, Reason: a.reason, Decision: none, Status: 200}
	if !a.ok {
		t.RetryAfter, t.Status = algo.Never, 403
	}
	if a.binding >= 0 {
		t.Name, t.Decision = a.applied[a.binding].Limit.Name, a.each[a.binding].Decision
		t.Status = a.status(a.binding)
	}
	t.OK, t.Delay = a.ok, a.delay
	for i := range a.applied {
		l, d := &a.applied[i], &a.each[i]
		t.Limits = append(t.Limits, TrialLimit{l.Limit.Name, d.Decision, l.Cost, l.Numbers.Mode, d.Over})
	}
	return t
}
