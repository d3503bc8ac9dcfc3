package server

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/resp"
	"github.com/headgate-io/headgate/server/command"
	"github.com/headgate-io/headgate/server/limits"
)

// LimitCall asks one limit, or several limits in one atomic step. It has the arguments of
// RL.LIMIT as values.
type LimitCall struct {
	// Segs are the limits, from 1 to engine.MaxSegments. Their Rounding is
	// algo.Exact.
	Segs []engine.Segment
	Opts algo.Options
	Sync command.SyncMode
}

// LimitAnswer says how a LimitCall was decided.
type LimitAnswer struct {
	// Binding is the position of the limit that decided the call.
	Binding int
	// Degraded reports that the failure policy has answered, because there was no leader.
	Degraded bool
}

// Decide does the same as RL.LIMIT, with values instead of a command and a reply. It
// writes the decision of each limit into out, which must have room for all limits. If
// another node has answered, or the call waited for a commit, times are whole
// milliseconds, rounded up. Also, Allowed is then 1 or 0, except for a call with AtMost.
//
// Its error is an error of Do or a ReplyError. On a node that leads, a call that does not
// wait for commits allocates nothing.
func (c *Caller) Decide(ctx context.Context, q *LimitCall, out []algo.Decision) (LimitAnswer, error) {
	if err := limits.Check(q.Segs, &q.Opts); err != nil {
		return LimitAnswer{}, ReplyError(err.Error())
	}
	if err := ctx.Err(); err != nil {
		return LimitAnswer{}, err
	}
	ln, err := c.borrow()
	if err != nil {
		return LimitAnswer{}, err
	}
	if binding, ok, err := ln.decide(q, out); ok {
		c.giveBack(ln)
		if err != nil {
			return LimitAnswer{}, ReplyError(command.EngineError(err).Error())
		}
		return LimitAnswer{Binding: binding}, nil
	}
	reply, err := c.run(ctx, ln, limits.AppendLimit(nil, q.Segs, &q.Opts, q.Sync))
	if err != nil {
		return LimitAnswer{}, err
	}
	if text := reply.Error(); text != "" {
		return LimitAnswer{}, ReplyError(text)
	}
	return readDecisions(&reply, out[:len(q.Segs)]), nil
}

// decide decides at once, if a client's command would also have needed no extra steps (see
// carefully). Otherwise ok is false, and decide has done nothing.
func (ln *line) decide(q *LimitCall, out []algo.Decision) (binding int, ok bool, err error) {
	l := ln.lane
	l.begin()
	defer l.end()
	if l.mode&^modeSample != 0 || len(l.portions) > 1 || q.Sync == command.SyncCommit {
		return 0, false, nil
	}
	call := &l.call
	if len(q.Segs) == 1 {
		seg := &q.Segs[0]
		out[0], err = call.Limits.Decide(l.now, seg.Key, seg.Limit, seg.Cost, &q.Opts)
	} else {
		binding, err = call.Limits.DecideAll(l.now, q.Segs, &q.Opts, out)
	}
	if errors.Is(err, engine.ErrSealed) {
		return 0, false, nil
	}
	l.count(ln.srv.limitSpec)
	if err != nil {
		l.sawError(&ln.conn, ln.srv.limitSpec, []byte("-"+command.EngineError(err).Error()))
		return 0, true, err
	}
	l.portion.decided++
	if out[binding].OK {
		l.passed++
	} else {
		l.denied++
	}
	return binding, true, nil
}

// readDecisions reads the reply of RL.LIMIT in RESP3.
func readDecisions(r *resp.Reply, out []algo.Decision) LimitAnswer {
	a := LimitAnswer{Degraded: r.Field("degraded") != nil}
	if len(out) == 1 {
		out[0] = readDecision(r)
		return a
	}
	list := r.Field("limits")
	for i := range out {
		out[i] = readDecision(&list.Elems[i])
	}
	bound := readDecision(r)
	a.Binding = max(slices.IndexFunc(out, func(d algo.Decision) bool {
		d.Delay = bound.Delay // in a chain, the longest delay of all limits
		return d == bound
	}), 0)
	return a
}

func readDecision(r *resp.Reply) algo.Decision {
	number := func(name string) int64 { return r.Field(name).Int }
	ns := func(name string) int64 {
		if ms := number(name); ms != algo.Never {
			return ms * int64(time.Millisecond)
		}
		return algo.Never
	}
	d := algo.Decision{
		Allowed: number("allowed"), Limit: number("limit"), Remaining: number("remaining"),
		RetryAfter: ns("retry_after_ms"), ResetAfter: ns("reset_after_ms"), Delay: ns("delay_ms"),
	}
	d.OK = d.Allowed > 0
	return d
}
