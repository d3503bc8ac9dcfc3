package checks

import (
	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/policy"
	"github.com/headgate-io/headgate/server/command"
)

// explainAny is RL.EXPLAIN of a key, of a policy and a caller, or of a hold.
func (c *Checker) explainAny(call *command.Call) {
	switch args := call.Args; {
	case len(args) == 2:
		c.explain(call)
	case len(args) == 3 && command.EqualFold(args[1], "hold"):
		c.explainHold(call, args[2])
	case !command.EqualFold(args[1], "policy"):
		call.Error("ERR syntax error, use RL.EXPLAIN key or RL.EXPLAIN POLICY name [attribute value ...] or RL.EXPLAIN HOLD hold")
	default:
		c.explainPolicy(call, args[2], args[3:])
	}
}

// explainPolicy shows for each limit of a policy whether it applies to a caller and why,
// and what a call would be answered. It changes nothing.
func (c *Checker) explainPolicy(call *command.Call, name []byte, args [][]byte) {
	p := c.book.Set().Policy(name)
	if p == nil {
		call.Error(c.book.Missing(name))
		return
	}
	if p.Descriptors() != nil {
		c.explainDescriptor(call, p, args)
		return
	}
	m := memory(call)
	defer m.end()
	if err := m.args.parse(args); err != nil {
		call.Error(err.Error())
		return
	}
	m.args.peek, m.args.printed = true, true
	err := m.match(p, call.Now)
	if err == nil && !c.homes.place(call, m, p) {
		return
	}
	if err == nil {
		if _, two := c.homes.splits(call, m); two {
			c.inTwo(call, m, p, func(call *command.Call) twoCall {
				return twoCall{
					name: call.Args[2],
					parse: func(m *checkMemory) error {
						err := m.args.parse(call.Args[3:])
						m.args.peek, m.args.printed = true, true
						return err
					},
					answer: func(m *checkMemory, a *answer) { c.showPolicy(call, m, p, a, true) },
					shows:  true,
				}
			})
			return
		}
	}
	var a answer
	if err == nil {
		err = m.decide(call, p, engine.CheckOptions{Peek: true, Anew: true}, &a)
	}
	if err != nil {
		m.fail(call, err)
		return
	}
	c.showPolicy(call, m, p, &a, false)
}

// showPolicy replies an RL.EXPLAIN POLICY. two reports that the call was decided in two
// steps.
func (c *Checker) showPolicy(call *command.Call, m *checkMemory, p *policy.Policy, a *answer, two bool) {
	// After Explain the keys of the answer are no longer valid.
	each := make(map[*policy.Limit]algo.Decision, len(a.applied))
	for i := range a.applied {
		each[a.applied[i].Limit] = a.each[i].Decision
	}
	binding := ""
	if a.binding >= 0 {
		binding = a.applied[a.binding].Limit.Name
	}
	findings := m.call.Explain(call.Now)

	out := command.NewPairs(call.W)
	out.Str("policy", p.Name)
	out.Int("version", int64(p.Version))
	out.Int("allowed", command.Truth(a.ok))
	out.Str("reason", a.reason)
	out.Str("name", binding)
	w := out.List("limits", len(findings))
	for i := range findings {
		f := &findings[i]
		line := command.NewPairs(w)
		explainFinding(line, f)
		if two {
			line.Int("step", 1+command.Truth(f.Limit.Ceiling))
		}
		if c := f.Limit.Calendar; c != nil {
			begin, end := c.Around(call.Now)
			line.Int("window_begin_ms", begin/1e6)
			line.Int("window_end_ms", end/1e6)
		}
		if d, ok := each[f.Limit]; ok && !f.Missing {
			line.Int("passes", command.Truth(d.OK))
			line.Int("capacity", d.Limit)
			line.Int("remaining", d.Remaining)
			line.Int("retry_after_ms", command.CeilMillis(d.RetryAfter))
			line.Int("reset_after_ms", command.CeilMillis(d.ResetAfter))
			line.Int("delay_ms", command.CeilMillis(d.Delay))
			if x, ok := offenderOf(call.Sess.Engine(), f.Limit, f.Numbers, f.Key, call.Now); ok {
				explainOffender(line, &x, call.Now)
			}
			if units, holders, err := call.Sess.Leases().OutOf(call.Now, f.Key, f.Hash); err == nil && holders > 0 {
				line.Int("out", units)
				line.Int("holders", holders)
			}
		}
		line.Flush()
	}
	unused := m.call.Unused()
	w = out.List("unused", len(unused))
	for _, name := range unused {
		w.Bulk(name)
	}
	out.Flush()
}

// explainFinding shows whether a limit applies and why.
func explainFinding(line *command.Pairs, f *policy.Finding) {
	line.Str("name", f.Limit.Name)
	line.Str("applies", f.Why.String())
	if f.Attribute != "" {
		line.Str("attribute", f.Attribute)
	}
	if f.Expected != "" {
		line.Str("expected", f.Expected)
	}
	if f.Err != nil {
		line.Str("error", f.Err.Error())
	}
	if f.Missing {
		line.Str("missing", "deny")
	}
	if n := f.Numbers; n != nil {
		line.Str("source", f.Source.Kind.String())
		if f.From != "" {
			line.Str("from", f.From)
		}
		line.Str("mode", n.Mode.String())
		line.Int("cost", f.Cost)
	}
	if f.Key != nil {
		line.Str("key", string(f.Key))
	}
}

// explainOwner shows which limit a policy's counter belongs to and how that counts.
func explainOwner(p *command.Pairs, key []byte, a algo.Algorithm) {
	if !a.IsPolicy() {
		return
	}
	if name, limit, _, ok := policy.ParseKey(key); ok {
		p.Str("policy", name)
		p.Str("name", limit)
	} else if name, ok := policy.IsDescriptorKey(key); ok {
		p.Str("policy", name)
		p.Str("name", "descriptors")
	}
	p.Str("algorithm", a.Decider().String())
}
