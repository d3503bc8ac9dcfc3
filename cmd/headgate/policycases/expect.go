package policycases

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/headgate-io/headgate/policy"
	"github.com/headgate-io/headgate/server/checks"
)

// Expectation is what a case expects of the answer to a call. It ignores the fields of the
// answer that the case does not mention.
type Expectation struct {
	verdict string // allow, deny or error; "" accepts any
	failure string // a part of the error's text
	checks  []check
}

// check compares one key of a step with the answer.
type check struct {
	key, want string
	// got returns the answer's value, in the same form as want.
	got func(a *checks.TrialAnswer) string
}

// asks reports whether anything is expected.

// Verdicts.
const (
	allow = "allow"
	deny  = "deny"
	fails = "error"
)

// none is the word for a limit that does not exist, and never for a wait that does not end.
const none, never = "none", "never"

// expectation adds to known the keys of a step that are about the answer.
func (r *reader) expectation(e *Expectation, known keys) {
	text := func(key string, parse func(s string) (string, error), got func(a *checks.TrialAnswer) string) {
		known[key] = r.parsed(func(s string) error {
			want, err := parse(s)
			e.checks = append(e.checks, check{key, want, got})
			return err
		})
	}
	names := func(key string, named func(l *checks.TrialLimit) bool) {
		known[key] = func(n *yaml.Node) error {
			want := []string{}
			err := r.list(n, key, func(n *yaml.Node) error {
				var name string
				err := r.text(&name)(n)
				want = append(want, name)
				return err
			})
			slices.Sort(want)
			e.checks = append(e.checks, check{key, fmt.Sprint(want), func(a *checks.TrialAnswer) string {
				got := []string{}
				for i := range a.Limits {
					if l := &a.Limits[i]; named(l) {
						got = append(got, l.Name)
					}
				}
				slices.Sort(got)
				return fmt.Sprint(got)
			}})
			return err
		}
	}
	known["expect"] = r.parsed(func(s string) error {
		if e.verdict = s; s != allow && s != deny && s != fails {
			return fmt.Errorf("%q: want allow, deny or error", s)
		}
		return nil
	})
	known["error"] = r.text(&e.failure)
	text("limit", word, func(a *checks.TrialAnswer) string { return nameOf(a.Name) })
	text("reason", word, func(a *checks.TrialAnswer) string { return a.Reason })
	text("retry_after", duration, func(a *checks.TrialAnswer) string { return wait(a.RetryAfter) })
	text("delay", duration, func(a *checks.TrialAnswer) string { return wait(a.Delay) })
	text("status", whole, func(a *checks.TrialAnswer) string { return fmt.Sprint(a.Status) })
	text("applied", whole, func(a *checks.TrialAnswer) string { return fmt.Sprint(len(a.Limits)) })
	names("soft", func(l *checks.TrialLimit) bool { return l.Over && l.Mode == policy.Soft })
	names("would_deny", func(l *checks.TrialLimit) bool { return l.Over && l.Mode == policy.Shadow })
	known["remaining"] = r.remaining(e)
}

// remaining reads the expected remaining units: one number for the limit that decides the
// call, or a number for each of several limits.
func (r *reader) remaining(e *Expectation) func(n *yaml.Node) error {
	return func(n *yaml.Node) error {
		add := func(key, name string) func(n *yaml.Node) error {
			return r.parsed(func(s string) error {
				want, err := whole(s)
				e.checks = append(e.checks, check{key, want, func(a *checks.TrialAnswer) string { return left(a, name) }})
				return err
			})
		}
		if n.Kind != yaml.MappingNode {
			return add("remaining", "")(n)
		}
		for i := 0; i < len(n.Content); i += 2 {
			name := n.Content[i].Value
			if err := add("remaining of "+name, name)(n.Content[i+1]); err != nil {
				return err
			}
		}
		return nil
	}
}

// left returns the remaining units of a limit. If name is "", it is the limit that decides
// the call.
func left(a *checks.TrialAnswer, name string) string {
	if name == "" {
		return fmt.Sprint(a.Remaining)
	}
	for i := range a.Limits {
		if l := &a.Limits[i]; l.Name == name {
			return fmt.Sprint(l.Remaining)
		}
	}
	return "a limit that does not apply"
}

func word(s string) (string, error) { return s, nil }

func whole(s string) (string, error) {
	var n int64
	err := number(&n, -1, math.MaxInt64)(s)
	return fmt.Sprint(n), err
}

// duration reads a wait, and returns it in the largest unit.
func duration(s string) (string, error) {
	if s == never {
		return s, nil
	}
	ns, err := policy.ParseDuration(s)
	if err != nil {
		return "", err
	}
	if ns%int64(time.Millisecond) != 0 {
		return "", errors.New("waits are whole milliseconds")
	}
	return policy.FormatDuration(ns), nil
}

// wait returns an answer's wait in ms, rounded up as in replies.
func wait(ns int64) string {
	if ns < 0 {
		return never
	}
	ms := int64(time.Millisecond)
	return policy.FormatDuration((ns + ms - 1) / ms * ms)
}

func nameOf(limit string) string {
	if limit == "" {
		return none
	}
	return limit
}

// check returns an error for an expectation that no answer can meet.
func (e *Expectation) check() error {
	switch {
	case e.failure != "" && e.verdict == "":
		e.verdict = fails
	case e.failure != "" && e.verdict != fails:
		return errors.New("the key error needs expect: error")
	}
	if e.verdict == fails && len(e.checks) > 0 {
		return fmt.Errorf("a call that is an error has no key %s", e.checks[0].key)
	}
	return nil
}

// differs returns a line for each difference between the answer and the expectation. If all
// is false, it compares only the verdict.
func (e *Expectation) differs(a *checks.TrialAnswer, err error, all bool) (lines []string) {
	verdict := deny
	switch {
	case err != nil:
		verdict = fails
	case a.Allowed:
		verdict = allow
	}
	got := verdict
	switch {
	case err != nil:
		got += " (" + err.Error() + ")"
	case verdict == deny:
		got += " by " + nameOf(a.Name) + ", reason " + a.Reason + ", retry_after " + wait(a.RetryAfter)
	}
	if e.verdict != "" && verdict != e.verdict || e.verdict == "" && err != nil {
		want := e.verdict
		if want == "" {
			want = "an answer"
		}
		return []string{fmt.Sprintf("expect: %s, but it is %s", want, got)}
	}
	if err != nil && !strings.Contains(err.Error(), e.failure) {
		return []string{fmt.Sprintf("error: %s, but it is %s", e.failure, err)}
	}
	if !all || err != nil {
		return nil
	}
	for _, c := range e.checks {
		if got := c.got(a); got != c.want {
			lines = append(lines, fmt.Sprintf("%s: %s, but it is %s", c.key, c.want, got))
		}
	}
	return lines
}
