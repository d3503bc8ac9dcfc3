package policycases

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/headgate-io/headgate/policy"
	"github.com/headgate-io/headgate/server/checks"
)

// Failure describes the first step of a case whose answer was not as expected.
type Failure struct {
	Step *Step
	// Call is the number of the call within the step, from 1.
	Call int
	// Differs has a line for each difference from the expectation.
	Differs []string
	// Limits has a line for each limit of the policy. The line says what the limit decided,
	// or why the limit did not apply.
	Limits []string
}

// Run decides the calls of a case with the policies in records. It returns how many calls
// it has decided, and the first failure or nil. Every call of a step must have the step's
// verdict. The other expectations apply to the step's last call only. err is an error in
// the policies.
func Run(records []*policy.Record, c *Case) (calls int, f *Failure, err error) {
	trial, err := checks.NewTrial(records)
	if err != nil {
		return 0, nil, err
	}
	start := max(c.Start.UnixNano(), 1) // an engine's time is never 0
	holds := map[string]string{}
	for i := range c.Steps {
		s := &c.Steps[i]
		now := start + int64(s.At)
		if s.Settles != "" {
			if err := s.settle(trial, now, holds[s.Settles]); err != nil {
				return calls, &Failure{Step: s, Call: 1, Differs: []string{fmt.Sprintf("%q: %v", s.Settles, err)}}, nil
			}
			continue
		}
		call := checks.TrialCall{Policy: s.Policy, Attributes: s.Attributes, Units: s.Cost}
		for n := 1; n <= s.Times; n++ {
			calls++
			var a checks.TrialAnswer
			var each []checks.TrialDescriptor
			var err error
			if len(s.Descriptors) > 0 {
				a, each, err = trial.Ask(now, s.request())
			} else {
				a, err = trial.Check(now, call)
			}
			if s.Hold != "" {
				holds[s.Hold] = a.Hold
			}
			if differs := s.Expect.differs(&a, err, n == s.Times); len(differs) > 0 {
				said := ruled(s, each)
				if len(s.Descriptors) == 0 {
					said = explain(trial, now, call, &a)
				}
				return calls, &Failure{s, n, differs, said}, nil
			}
		}
	}
	return calls, nil, nil
}

// settle settles the hold of a step.
func (s *Step) settle(t *checks.Trial, now int64, hold string) error {
	if s.Cancels {
		return t.Cancel(now, hold)
	}
	return t.Commit(now, hold, s.costs()...)
}

// costs returns the arguments of RL.COMMIT after the hold.
func (s *Step) costs() (args []string) {
	for _, p := range s.Attributes {
		args = append(args, p.Name, p.Value)
	}
	if s.Costs {
		args = append(args, "COST", strconv.FormatInt(s.Cost, 10))
	}
	return args
}

// explain returns a line for each limit, which says what the limit decided.
func explain(t *checks.Trial, now int64, call checks.TrialCall, a *checks.TrialAnswer) (lines []string) {
	findings, err := t.Explain(now, call)
	if err != nil {
		return nil
	}
	for i := range findings {
		f := &findings[i]
		line := f.Limit.Name + " " + f.String()
		for j := range a.Limits {
			if l := &a.Limits[j]; l.Name == f.Limit.Name && !f.Missing {
				line = f.Limit.Name + " " + said(l)
			}
		}
		if f.From != "" {
			line += fmt.Sprintf(" (%s: %s)", f.Source.Kind, f.From)
		}
		lines = append(lines, line)
	}
	return lines
}

// said returns what a limit decided, for a limit that applied.
func said(l *checks.TrialLimit) string {
	verdict := "passes"
	if !l.OK {
		verdict = "denies, retry_after " + wait(l.RetryAfter)
	}
	s := fmt.Sprintf("%s, remaining %d of %d, cost %d", verdict, l.Remaining, l.Limit, l.Cost)
	if l.Mode != policy.Enforce {
		s += ", " + l.Mode.String()
	}
	return s
}

// String returns the call in the form that a client sends.
func (s *Step) String() string {
	switch {
	case s.Settles != "" && s.Cancels:
		return "RL.CANCEL " + s.Settles
	case s.Settles != "":
		return strings.Join(append([]string{"RL.COMMIT", s.Settles}, s.costs()...), " ")
	}
	if len(s.Descriptors) > 0 {
		return s.requestText()
	}
	var b strings.Builder
	b.WriteString("RL.CHECK " + s.Policy)
	for _, p := range s.Attributes {
		fmt.Fprintf(&b, " %s %s", p.Name, quoted(p.Value))
	}
	if s.Cost != 1 {
		fmt.Fprintf(&b, " COST %d", s.Cost)
	}
	return b.String()
}

// quoted returns a value in the form that redis-cli reads.
func quoted(s string) string {
	if s == "" || strings.ContainsAny(s, " \"'\\") || strings.ContainsFunc(s, func(c rune) bool { return c < ' ' }) {
		return fmt.Sprintf("%q", s)
	}
	return s
}
