package checks

import (
	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/policy"
	"github.com/headgate-io/headgate/server/command"
)

// outcomes are the words for the outcomes of a descriptor.
var outcomes = [...]string{policy.Counted: "counted", policy.Unmatched: "unmatched", policy.Open: "unlimited", policy.Replaced: "replaced"}

// explainDescriptor shows the rule that a descriptor matches and its counter. pairs are the
// descriptor's entries. It changes nothing.
func (c *Checker) explainDescriptor(call *command.Call, p *policy.Policy, pairs [][]byte) {
	var matcher policy.Descriptor
	m, err := MatchDescriptor(&matcher, p, pairs, call.Now)
	if err != nil {
		call.Error(err.Error())
		return
	}
	var counted [1]engine.Counted
	if m.Outcome == policy.Counted {
		ready, ok := m.Numbers.Handle.(engine.Ready)
		if !ok {
			ready, err = call.Sess.Ready(EngineLimit(p.Descriptors().Limit(), m.Numbers))
		}
		if err == nil {
			// Shadow mode, so that RL.TOP does not count it as a call.
			checks := [...]engine.Check{{Key: m.Key, Hash: m.Hash, Limit: ready, Mode: algo.Shadow}}
			err = call.Sess.CountWindows(call.Now, checks[:], []int64{0}, engine.CheckOptions{Peek: true, Anew: true}, counted[:])
		}
		if err != nil {
			call.Fail(err)
			return
		}
	}
	out := command.NewPairs(call.W)
	out.Str("policy", p.Name)
	out.Int("version", int64(p.Version))
	out.Str("applies", outcomes[m.Outcome])
	if r := m.Rule; r != nil {
		out.Str("rule", r.Path)
		if r.Name != "" {
			out.Str("name", r.Name)
		}
		out.Int("shadow", command.Truth(r.Shadow))
		out.Int("quota", command.Truth(r.Quota))
	}
	if m.Outcome == policy.Counted {
		out.Int("limit", m.Limit.Requests)
		out.Str("unit", m.Limit.Unit.String())
		out.Int("used", counted[0].Units)
		out.Int("remaining", max(m.Limit.Requests-counted[0].Units, 0))
		out.Int("reset_ms", command.CeilMillis(counted[0].ResetAfter))
		out.Str("key", string(m.Key))
	}
	out.Flush()
}
