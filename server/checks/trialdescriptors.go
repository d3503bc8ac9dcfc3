package checks

import (
	"errors"
	"fmt"
	"strings"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/policy"
)

// TrialRequest is the arguments of RL.DESCRIPTORS.
type TrialRequest struct {
	Policy      string
	Hits        int64 // hits_addend of the request; 0 counts as 1
	Descriptors []policy.Asked
}

// TrialDescriptor is the result of one descriptor.
type TrialDescriptor struct {
	// Outcome says whether a limit counts the descriptor. Rule is the path of the limit's
	// rule; "" if there is no rule. If the limit came with the request, Rule says so.
	Outcome policy.Outcome
	Rule    string
	TrialLimit
}

// ParseAskedLimit reads the limit of a descriptor, requests/unit or
// requests/unit*multiplier.
func ParseAskedLimit(s string) (policy.AskedLimit, error) {
	l, err := parseAskedLimit([]byte(s))
	if err != nil {
		err = errors.New(strings.TrimPrefix(err.Error(), "ERR "))
	}
	return l, err
}

// Ask decides a request of descriptors at a time, as Check decides a call. The answer's
// Name is the path of the rule, or the name of the limit, that stands for the request. Its
// Limits are the limits that the descriptors meet. each has the result of each descriptor.
// Ask returns ErrNoPolicy and the errors of RL.DESCRIPTORS.
func (t *Trial) Ask(now int64, r TrialRequest) (a TrialAnswer, each []TrialDescriptor, err error) {
	p := t.set.Policy([]byte(r.Policy))
	if p == nil {
		return a, nil, ErrNoPolicy
	}
	x := &t.asked
	defer x.end()
	x.args.hits = r.Hits
	x.args.asked = append(x.args.asked[:0], r.Descriptors...)
	t.call.Now = now
	if err := x.decide(&t.call, p, engine.CheckOptions{}); err != nil {
		return a, nil, err
	}
	a = TrialAnswer{Allowed: !x.ruling.over, Reason: x.ruling.reason, Decision: none, Status: 200}
	if x.ruling.over {
		a.RetryAfter, a.Status = algo.Never, 429
	}
	for i := range x.ruling.statuses {
		d := x.descriptorOf(p, i)
		if i == x.ruling.binding {
			a.Name, a.Decision = d.Name, d.Decision
		}
		if d.Name != "" && d.Outcome == policy.Counted {
			a.Limits = append(a.Limits, d.TrialLimit)
		}
		each = append(each, d)
	}
	a.OK = a.Allowed
	return a, each, nil
}

// descriptorOf returns the result of the i-th descriptor.
func (x *descriptorMemory) descriptorOf(p *policy.Policy, i int) (d TrialDescriptor) {
	s := &x.ruling.statuses[i]
	d.Decision = algo.Decision{OK: !s.over, Limit: s.limit.Requests, Remaining: s.left, RetryAfter: s.retry, ResetAfter: s.reset}
	d.Over = s.flags&flagExceeded != 0 && !s.over
	if s.flags&(flagShadow|flagQuota) != 0 {
		d.Mode = policy.Shadow
	}
	if p.Descriptors() == nil { // among limits, the one that stands for the descriptor
		d.Name, d.Rule = s.name, s.name
		if s.flags&flagUnmatched != 0 {
			d.Outcome = policy.Unmatched
		}
		return d
	}
	m := &x.matcher.Matched[i]
	d.Outcome, d.Cost = m.Outcome, m.Hits
	switch {
	case m.Rule != nil:
		d.Rule = m.Rule.Path
	case m.Outcome == policy.Counted:
		d.Rule = askedLimit
	}
	d.Name = d.Rule
	return d
}

// String returns the result of the descriptor as text.
func (d *TrialDescriptor) String() string {
	if d.Outcome != policy.Counted {
		return outcomes[d.Outcome]
	}
	return fmt.Sprintf("remaining %d of %d", d.Remaining, d.Limit)
}
