package checks

import (
	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/policy"
	"github.com/headgate-io/headgate/server/events"
)

// # Events about policies

// tellDenials reports the limits or the list that have denied a call, or would have.
func (c *Checker) tellDenials(now int64, a *answer) {
	tell := func(kind events.Type, limit, reason string, key []byte) {
		c.denials.Note(now, &events.Denial{Type: kind, Policy: a.policy.Name, Limit: limit, Reason: reason, Key: key})
	}
	if len(a.applied) == 0 {
		tell(events.Denied, "", a.reason, nil)
		return
	}
	for i := range a.applied {
		l, d := &a.applied[i], &a.each[i]
		switch {
		case d.Over && l.Numbers.Mode == policy.Shadow:
			tell(events.Shadow, l.Limit.Name, reasonOf(l), l.Key)
		case i == a.binding && a.reason == reasonPenalty:
			tell(events.Denied, l.Limit.Name, reasonPenalty, l.Key)
			if a.begun && d.RetryAfter != algo.Never {
				c.denials.Begun(now, a.policy.Name, l.Limit.Name, l.Key, d.RetryAfter)
			}
		case !d.OK && l.Numbers.Mode == policy.Enforce:
			tell(events.Denied, l.Limit.Name, reasonOf(l), l.Key)
		}
	}
}

// tellRules reports the rules of descriptors that have denied a request, or would have.
func (c *Checker) tellRules(now int64, p *policy.Policy, x *descriptorMemory) {
	for i := range x.matcher.Matched {
		m, s := &x.matcher.Matched[i], &x.ruling.statuses[i]
		if s.flags&flagExceeded == 0 {
			continue
		}
		d := events.Denial{Type: events.Shadow, Policy: p.Name, Limit: askedLimit, Reason: "limit", Key: m.Key}
		if s.over {
			d.Type = events.Denied
		}
		if m.Rule != nil {
			d.Limit = m.Rule.Path
		}
		c.denials.Note(now, &d)
	}
}

// reasonOf returns why a limit denies.
func reasonOf(l *policy.Applied) string {
	if l.Missing {
		return "missing"
	}
	return "limit"
}
