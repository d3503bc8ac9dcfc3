package checks

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/policy"
	"github.com/headgate-io/headgate/policy/grammar"
	"github.com/headgate-io/headgate/resp"
	"github.com/headgate-io/headgate/server/command"
	"github.com/headgate-io/headgate/server/limits/wire"
)

// plainReply is a reply of RL.CHECK value by value.
func plainReply(call *command.Call, a *answer) {
	w := call.W
	decision := func(d *algo.Decision, ok bool, delay int64) {
		wire.IntField(w, "allowed", command.Truth(ok))
		wire.IntField(w, "limit", d.Limit)
		wire.IntField(w, "remaining", d.Remaining)
		wire.IntField(w, "retry_after_ms", command.CeilMillis(d.RetryAfter))
		wire.IntField(w, "reset_after_ms", command.CeilMillis(d.ResetAfter))
		wire.IntField(w, "delay_ms", command.CeilMillis(delay))
	}
	fields := 13
	if call.Degraded && w.RESP3 {
		fields++
	}
	wire.OpenFields(w, fields)
	binding := algo.Decision{Limit: -1, Remaining: -1}
	if !a.ok {
		binding.RetryAfter = algo.Never
	}
	if a.binding >= 0 {
		binding = a.each[a.binding].Decision
	}
	decision(&binding, a.ok, a.delay)
	if wire.Field(w, "name"); a.binding >= 0 {
		w.BulkString(a.applied[a.binding].Limit.Name)
	} else {
		w.Null()
	}
	wire.Field(w, "reason")
	w.BulkString(a.reason)
	wire.Field(w, "hold")
	w.Null()
	wire.IntField(w, "version", int64(a.policy.Version))
	wire.IntField(w, "applied", int64(len(a.applied)))
	wire.Field(w, "limits")
	w.Array(len(a.applied))
	var soft []string
	for i := range a.applied {
		l, c := &a.applied[i], &a.each[i]
		wire.OpenFields(w, 11)
		wire.Field(w, "name")
		w.BulkString(l.Limit.Name)
		decision(&c.Decision, c.OK, c.Delay)
		wire.IntField(w, "cost", l.Cost)
		wire.Field(w, "mode")
		w.BulkString(l.Numbers.Mode.String())
		status := 200
		switch never := c.RetryAfter == algo.Never; {
		case l.Missing:
			status = 403
		case !c.OK && never:
			status = 403
		case !c.OK:
			status = 429
		}
		wire.IntField(w, "status", int64(status))
		window := []int64{1000, 2334, 2000}[l.Numbers.Mode]
		if l.Numbers == l.Limit.Usual() {
			window = 1000
		}
		wire.IntField(w, "window_ms", window)
		if c.Over && l.Numbers.Mode == policy.Soft {
			soft = append(soft, l.Limit.Name)
		}
	}
	wire.Field(w, "soft")
	w.Array(len(soft))
	for _, name := range soft {
		w.BulkString(name)
	}
	if call.Degraded && w.RESP3 {
		wire.Field(w, "degraded")
		w.Bool(true)
	}
}

// Most of a reply is copied from what was made once. It is what a reply is that is
// written value by value.
func TestRepliesOfChecksValueByValue(t *testing.T) {
	rec, err := grammar.ParseRecord("p", "p", []byte("{limits: {a: {rate: 1/s}, long_name_of_a_limit: {rate: 2/s}, c: {rate: 3/s}}}"))
	require.NoError(t, err)
	e := policy.NewSet(policy.Config{}).Edit()
	e.Set(rec, policy.Meta{Version: 17})
	set, err := e.Finish(1)
	require.NoError(t, err)
	p := set.Policy([]byte("p"))
	// The second limit admits what its usual numbers do, in another time than others.
	usual := p.Limits[1].Usual()
	usual.Handle, err = engine.New(engine.Config{}).Ready(EngineLimit(&p.Limits[1], usual))
	require.NoError(t, err)
	NewTallies().Attach([]Swap{{Is: p}})
	require.Nil(t, attachedTo(p).limits[0].usual)
	require.NotNil(t, attachedTo(p).limits[1].usual)

	rnd := rand.New(rand.NewPCG(21, 22))
	one := func(of ...int64) int64 { return of[rnd.IntN(len(of))] }
	var numbers [policy.Off]policy.Numbers
	for m := range numbers {
		numbers[m].Mode = policy.Mode(m)
		numbers[m].Rate = policy.Rate{Amount: 3, Period: 1e9, Burst: []int64{0, 7, 6}[m]}
	}
	for range 20_000 {
		a := answer{policy: p, ok: rnd.IntN(3) > 0, reason: reasonOK, binding: -1, delay: one(0, 0, 1, 2e9)}
		if !a.ok {
			a.reason = []string{"limit", "missing", "deny"}[rnd.IntN(3)]
		} else if rnd.IntN(8) == 0 {
			a.reason = "allow"
		}
		for i := range p.Limits {
			if rnd.IntN(6) == 0 {
				continue
			}
			l := policy.Applied{Limit: &p.Limits[i], Numbers: &numbers[one(0, 0, 0, 1, 2)], Cost: one(1, 1, 1, 0, 7)}
			if i == 1 && rnd.IntN(2) == 0 {
				l.Numbers = usual
			}
			c := engine.Checked{Over: rnd.IntN(5) == 0}
			c.OK, l.Missing = rnd.IntN(4) > 0, rnd.IntN(10) == 0
			c.Limit, c.Remaining = one(0, 2, 9, 100, 12_345_678_901), one(0, 1, 99, 1<<62)
			c.ResetAfter, c.Delay = one(0, 1, 1e6, 864e12, 1<<62), one(0, 0, 0, 15e8)
			if !c.OK {
				c.RetryAfter = one(algo.Never, 1, 5e9)
			}
			if l.Missing {
				c.OK = false
			}
			a.applied, a.each = append(a.applied, l), append(a.each, c)
		}
		if n := len(a.applied); n > 0 && rnd.IntN(5) > 0 {
			a.binding = rnd.IntN(n)
		}
		w, want := &resp.Writer{RESP3: rnd.IntN(2) == 0, B: []byte("+before\r\n")}, &resp.Writer{B: []byte("+before\r\n")}
		want.RESP3 = w.RESP3
		degraded := rnd.IntN(4) == 0
		a.write(&command.Call{W: w, Degraded: degraded})
		plainReply(&command.Call{W: want, Degraded: degraded}, &a)
		require.Equal(t, string(want.B), string(w.B))
	}
}
