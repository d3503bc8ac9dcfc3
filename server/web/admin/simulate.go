package admin

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/policy"
	"github.com/headgate-io/headgate/policy/grammar"
	"github.com/headgate-io/headgate/server/checks"
)

// # Trials
//
// A trial plays a trace of calls on limits or policies. It decides as RL.LIMIT and RL.CHECK
// do, but on an empty table of its own and at the times that the trace says. A trial
// neither reads nor changes the server's counters and policies.

// Bounds of a trial.
const (
	maxTrial = 256 << 10 // bytes of the body
	maxSteps = 1000
	maxTimes = 1000
	maxCalls = 10_000
	// trialPatience bounds how long a trial runs.
	trialPatience = 2 * time.Second
	// lookEvery is the number of calls between two looks at the clock.
	lookEvery = 64
	// maxAt bounds the time of a step, counted from the start of the trace.
	maxAt = 10 * 365 * 24 * time.Hour
)

// trialStart is the default start of a trace: a midnight in UTC.
var trialStart = time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)

// trial is the body: one limit, tried with each algorithm, or policies.
type trial struct {
	Start string `json:"start"`
	// Limit is as in RL.LIMIT.
	Limit *struct {
		Limit  int64  `json:"limit"`
		Period string `json:"period"`
		Burst  int64  `json:"burst"` // for token and leaky; 0 means the same as Limit
	} `json:"limit"`
	// Policies is the text of a file of policies.
	Policies string `json:"policies"`
	Trace    []step `json:"trace"`
}

// step is one call, or several equal calls at the same time.
type step struct {
	AtMS  int64  `json:"at_ms"` // since the start of the trace; never before the previous step
	Cost  *int64 `json:"cost"`  // 1 by default
	Times int    `json:"times"` // 1 by default
	// For trials of policies only.
	Policy     string     `json:"policy"`
	Attributes attributes `json:"attributes"`

	pairs []policy.Pair
}

// outcome is the result of the last call of a step, and how many of the step's calls
// passed.
type outcome struct {
	AtMS       int64  `json:"at_ms"`
	Passed     int    `json:"passed"`
	Denied     int    `json:"denied"`
	Limit      int64  `json:"limit"`
	Remaining  int64  `json:"remaining"`
	RetryAfter int64  `json:"retry_after_ms"`
	ResetAfter int64  `json:"reset_after_ms"`
	Delay      int64  `json:"delay_ms"`
	Name       string `json:"name,omitempty"`
	Reason     string `json:"reason,omitempty"`
	Error      string `json:"error,omitempty"`
}

// decision copies an engine's decision.
func (o *outcome) decision(d *algo.Decision) {
	if d.OK {
		o.Passed++
	} else {
		o.Denied++
	}
	o.Limit, o.Remaining = d.Limit, d.Remaining
	o.RetryAfter, o.ResetAfter, o.Delay = milliseconds(d.RetryAfter), milliseconds(d.ResetAfter), milliseconds(d.Delay)
}

// milliseconds rounds ns up; algo.Never stays -1.
func milliseconds(ns int64) int64 {
	if ns < 0 {
		return ns
	}
	ms := ns / int64(time.Millisecond)
	if ns%int64(time.Millisecond) > 0 {
		ms++
	}
	return ms
}

var errTrialSlow = &Error{Status: http.StatusUnprocessableEntity, Detail: "the trial takes too long: send fewer calls or a simpler policy"}

// simulate answers the results of a trace of calls.
func (a *API) simulate(r *Request) (Answer, error) {
	if _, err := r.query(); err != nil {
		return Answer{}, err
	}
	var t trial
	if err := decode(r.Body, &t); err != nil {
		return Answer{}, err
	}
	start, err := t.check()
	if err != nil {
		return Answer{}, err
	}
	ctx, cancel := context.WithTimeout(r.Context(), trialPatience)
	defer cancel()
	if t.Limit != nil {
		return t.compare(ctx, start)
	}
	return t.decide(ctx, start)
}

// check fills in defaults, and returns the start of the trace in Unix ns.
func (t *trial) check() (start int64, err error) {
	if (t.Limit == nil) == (t.Policies == "") {
		return 0, wrong("limit or policies is required")
	}
	if len(t.Trace) == 0 || len(t.Trace) > maxSteps {
		return 0, wrong("trace must have 1 to %d steps", maxSteps)
	}
	start = trialStart.UnixNano()
	if t.Start != "" {
		if start, err = policy.ParseTime(t.Start); err != nil || start <= 0 {
			return 0, wrong("start must be a time such as 2026-01-01T00:00:00Z")
		}
	}
	calls, before := 0, int64(0)
	one := int64(1)
	for i := range t.Trace {
		s := &t.Trace[i]
		if s.Times == 0 {
			s.Times = 1
		}
		if s.Cost == nil {
			s.Cost = &one
		}
		switch {
		case s.AtMS < before || s.AtMS > maxAt.Milliseconds():
			return 0, wrong("step %d: at_ms must not go back, and must be at most %d", i+1, maxAt.Milliseconds())
		case s.Times < 1 || s.Times > maxTimes:
			return 0, wrong("step %d: times must be 1 to %d", i+1, maxTimes)
		case *s.Cost < 0:
			return 0, wrong("step %d: cost must be 0 or more", i+1)
		case (s.Policy == "") != (t.Limit != nil), t.Limit != nil && len(s.Attributes) > 0:
			return 0, wrong("step %d: policy and attributes are required with policies, and not allowed with limit", i+1)
		}
		before = s.AtMS
		if calls += s.Times; calls > maxCalls {
			return 0, wrong("at most %d calls", maxCalls)
		}
		pairs, err := s.Attributes.pairs()
		if err != nil {
			return 0, err
		}
		for i := 0; i < len(pairs); i += 2 {
			s.pairs = append(s.pairs, policy.Pair{Name: pairs[i], Value: pairs[i+1]})
		}
	}
	return start, nil
}

// play decides the calls of the trace one after the other, until ctx is done.
func (t *trial) play(ctx context.Context, start int64, call func(now int64, s *step, o *outcome) error) ([]outcome, error) {
	out := make([]outcome, len(t.Trace))
	n := 0
	for i := range t.Trace {
		s, o := &t.Trace[i], &out[i]
		o.AtMS = s.AtMS
		for range s.Times {
			if n++; n%lookEvery == 0 && ctx.Err() != nil {
				return nil, errTrialSlow
			}
			if err := call(start+s.AtMS*int64(time.Millisecond), s, o); err != nil {
				return nil, wrong("step %d: %s", i+1, strings.TrimPrefix(err.Error(), "ERR "))
			}
		}
	}
	return out, nil
}

// compare plays the trace on a limit with each algorithm.
func (t *trial) compare(ctx context.Context, start int64) (Answer, error) {
	period, err := policy.ParseDuration(t.Limit.Period)
	if err != nil {
		return Answer{}, wrong("period: %v", err)
	}
	by := map[string][]outcome{}
	for _, algorithm := range algo.Deciding() {
		session := engine.New(engine.Config{Shards: 1}).NewSession()
		limit := algo.Limit{Algorithm: algorithm, Limit: t.Limit.Limit, Period: period}
		if algorithm.HasBurst() {
			limit.Burst = t.Limit.Burst
		}
		outcomes, err := t.play(ctx, start, func(now int64, s *step, o *outcome) error {
			d, err := session.Decide(now, []byte("trial"), limit, *s.Cost, &algo.Options{})
			if err == nil {
				o.decision(&d)
			}
			return err
		})
		if err != nil {
			return Answer{}, err
		}
		by[algorithm.String()] = outcomes
	}
	return answer(struct {
		Algorithms map[string][]outcome `json:"algorithms"`
	}{by})
}

// decide plays the trace on policies.
func (t *trial) decide(ctx context.Context, start int64) (Answer, error) {
	records, err := grammar.ParseFile("", []byte(t.Policies))
	if err != nil {
		return Answer{}, wrong("policies: %v", err)
	}
	on, err := checks.NewTrial(records)
	if err != nil {
		return Answer{}, wrong("policies: %v", err)
	}
	outcomes, err := t.play(ctx, start, func(now int64, s *step, o *outcome) error {
		answer, err := on.Check(now, checks.TrialCall{Policy: s.Policy, Attributes: s.pairs, Units: *s.Cost})
		switch {
		case errors.Is(err, checks.ErrNoPolicy):
			return err
		case err != nil: // an error of the call
			o.Error = strings.TrimPrefix(err.Error(), "ERR ")
			return nil
		}
		o.decision(&answer.Decision)
		o.Name, o.Reason = answer.Name, answer.Reason
		return nil
	})
	if err != nil {
		return Answer{}, err
	}
	return answer(struct {
		Steps []outcome `json:"steps"`
	}{outcomes})
}
