package engine_test

import (
	"fmt"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/engine/algo/algotest"
)

// modelCounter is the counter of a policy's limit by its definition, over the
// models of the algorithms.
type modelCounter struct {
	l      algo.Limit // of a policy, that it was last charged under
	token  algo.State
	window algotest.Window
	used   int64 // of a calendar, until end
	end    int64
}

// plain is the limit of RL.LIMIT that decides like one of a policy.
func plain(l algo.Limit) algo.Limit {
	l.Algorithm, l.Resets, l.Scalings = l.Algorithm.Decider(), 0, 0
	return l
}

// under returns the counter as it is under a limit, perhaps not its own. Edits in this
// model change amounts, and void what was consumed, but leave periods alone.
func (c *modelCounter) under(l algo.Limit, now int64) *modelCounter {
	next := &modelCounter{l: l, window: algotest.Window{Limit: plain(l)}}
	if c == nil || c.l.Resets != l.Resets || c.l.Algorithm != l.Algorithm || l.Limit == 0 {
		return next
	}
	next.window.Start, next.window.Open, next.window.Hits = c.window.Start, c.window.Open, append(algotest.History{}, c.window.Hits...)
	next.token = c.token
	if c.end > now {
		next.used, next.end = c.used, c.end
	}
	if c.l.Scalings != l.Scalings {
		next.scaled(c, now)
		return next
	}
	if c.l != l && plain(l).Algorithm <= algo.Leaky {
		next.token = algotest.NewBucket(plain(l)).Adopt(c.token, algotest.NewBucket(plain(c.l)), now)
	}
	return next
}

// scaled makes c, whose units were consumed under another limit, keep their share.
func (c *modelCounter) scaled(old *modelCounter, now int64) {
	is, was := plain(c.l), plain(old.l)
	share := func(n, to, of *big.Int) *big.Int { return algotest.CeilDiv(algotest.Mul(n, to), of) }
	if c.bucket() {
		used := algotest.Positive(algotest.Sub(algotest.Add(algotest.InFractions(c.token.Deadline), algotest.Int(int64(c.token.First))), algotest.InFractions(now)))
		if c.token.Deadline < now || used.Sign() == 0 {
			c.token = algo.State{}
			return
		}
		capacity := func(l algo.Limit) *big.Int {
			m := algotest.NewBucket(l)
			return algotest.FloorDiv(m.Time(algotest.Int(m.Burst)), algotest.TwoTo32)
		}
		c.token = algo.State{Deadline: now + share(algotest.Int(algotest.InNS(used)), capacity(is), capacity(was)).Int64()}
		return
	}
	of := func(n int64) int64 {
		return share(algotest.Int(n), algotest.Int(is.Limit), algotest.Int(was.Limit)).Int64()
	}
	if c.l.Algorithm == algo.PolicyCalendar {
		c.used = of(c.used)
		return
	}
	w := &c.window
	w.Roll(now)
	var hits algotest.History
	sum, from := int64(0), int64(0)
	for _, x := range w.Hits {
		if is.Algorithm == algo.Sliding && from < w.Start && x.At >= w.Start { // each window by itself
			sum, from = 0, w.Start
		}
		before := of(sum)
		sum += x.Cost
		if n := of(sum) - before; n > 0 {
			hits = append(hits, algotest.Hit{At: x.At, Cost: n})
		}
	}
	w.Hits = hits
}

func (c *modelCounter) bucket() bool { return plain(c.l).Algorithm <= algo.Leaky }

// decide answers one call, and charges it if it passes.
func (c *modelCounter) decide(now, cost int64, o algo.Options) (d algo.Decision) {
	if c.l.Limit == 0 {
		return algo.Decision{RetryAfter: algo.Never}
	}
	if c.bucket() {
		next, d, write, err := algotest.NewBucket(plain(c.l)).Decide(c.token, now, cost, o)
		if err != nil {
			panic(err)
		}
		if write {
			c.token = next
		}
		return d
	}
	if c.l.Algorithm == algo.PolicyCalendar {
		return c.decideCalendar(now, cost, o)
	}
	d = c.window.Decide(now, cost, o)
	if !d.OK {
		d.RetryAfter = c.wait(now, cost, o)
	}
	return d
}

// opens begins a calendar's window with the first charge, as the call brings it. An open
// window stays.
func (c *modelCounter) opens(now int64, w *algo.Window) {
	if c.end <= now {
		c.used = 0
	}
	if c.used == 0 {
		c.end = w.End
	}
}

func (c *modelCounter) decideCalendar(now, cost int64, o algo.Options) algo.Decision {
	c.opens(now, o.Window)
	if o.AtMost {
		cost = max(min(cost, c.l.Limit+o.Debt-c.used), 1)
	}
	d := algo.Decision{Limit: c.l.Limit, OK: o.Force || c.used+cost <= c.l.Limit+o.Debt || cost == 0}
	used := c.used
	switch {
	case d.OK:
		used += cost
		d.Allowed = cost
	case cost > c.l.Limit+o.Debt:
		d.RetryAfter = algo.Never
	default:
		d.RetryAfter = c.end - now
	}
	d.Remaining = max(c.l.Limit-used, 0)
	if used > 0 {
		d.ResetAfter = c.end - now
	}
	if !o.Peek {
		c.used = used
	}
	return d
}

// wait is the first time from now on at which a call passes, by bisection: while
// nothing is charged, what counts only gets less.
func (c *modelCounter) wait(now, cost int64, o algo.Options) int64 {
	o.Peek = true
	passes := func(wait int64) bool { return c.under(c.l, now).window.Decide(now+wait, cost, o).OK }
	low, high := int64(0), 2*c.l.Period
	if !passes(high) {
		return algo.Never
	}
	for high-low > 1 {
		if mid := (low + high) / 2; passes(mid) {
			high = mid
		} else {
			low = mid
		}
	}
	return high
}

// count charges a call that is denied, and counts.
func (c *modelCounter) count(now, cost, debt int64, w *algo.Window) {
	l := plain(c.l)
	if l.Limit == 0 {
		return
	}
	if l.Algorithm == algo.PolicyCalendar {
		c.opens(now, w)
		c.used += cost
		return
	}
	if c.bucket() {
		m := algotest.NewBucket(l)
		tat := algotest.Add(algotest.InFractions(c.token.Deadline), algotest.Int(int64(c.token.First)))
		used := algotest.Positive(algotest.Sub(tat, algotest.InFractions(now)))
		most := algotest.Add(m.Time(algotest.Int(m.Burst)), algotest.InFractions(l.Period))
		if room := m.Time(algotest.Int(m.Burst + debt)); room.Cmp(most) > 0 {
			most = room
		}
		charged := algotest.Lesser(algotest.Add(used, m.Time(algotest.Int(cost))), most)
		if charged.Cmp(used) < 0 {
			charged = used
		}
		c.token = algotest.StateAt(algotest.Add(algotest.InFractions(now), charged))
		return
	}
	c.window.Decide(now, cost, algo.Options{Force: true})
	if l.Algorithm == algo.Log {
		for over := c.window.Used(now) - l.Limit - debt; over > 0; {
			first := &c.window.Hits[0]
			n := min(over, first.Cost)
			first.Cost -= n
			over -= n
			if first.Cost == 0 {
				c.window.Hits = c.window.Hits[1:]
			}
		}
	}
}

// modelStep is Session.Check by its definition. counters are the checks' own, nil
// for an absent one, and become what they are afterwards.
func modelStep(now int64, checks []engine.Check, o engine.CheckOptions, counters []*modelCounter) (engine.Verdict, []engine.Checked) {
	v, out, waits := modelCharges(now, checks, o, counters)
	if !v.OK && v.Binding >= 0 {
		out[v.Binding].RetryAfter = longestModel(append(waits, out[v.Binding].RetryAfter))
	}
	return v, out
}

func longestModel(waits []int64) (longest int64) {
	for _, wait := range waits {
		if wait == algo.Never {
			return algo.Never
		}
		longest = max(longest, wait)
	}
	return longest
}

// modelCharges is modelStep. If the call is denied, it also returns the wait of the next
// such call on limits that had room.
func modelCharges(now int64, checks []engine.Check, o engine.CheckOptions, counters []*modelCounter) (v engine.Verdict, out []engine.Checked, waits []int64) {
	out = make([]engine.Checked, len(checks))
	at := make([]*modelCounter, len(checks))
	look := func(i int, cost, debt int64) algo.Decision {
		return at[i].under(at[i].l, now).decide(now, cost, algo.Options{Peek: true, Wait: checks[i].Wait, Debt: debt, Window: checks[i].Window})
	}
	v = engine.Verdict{OK: !o.Denied, Binding: -1}
	for i, c := range checks {
		if c.Mode == algo.Off {
			continue
		}
		at[i] = counters[i].under(c.Limit.Limit(), now)
		d := look(i, c.Cost, c.Debt)
		out[i].Decision = d
		if c.Mode == algo.Enforce && !d.OK {
			v.OK = false
		}
	}
	for i, c := range checks {
		if c.Mode == algo.Off {
			continue
		}
		passes := out[i].OK
		out[i].Over = v.OK && !passes
		charged := c.Cost > 0
		switch {
		case v.OK && passes:
			at[i].decide(now, c.Cost, algo.Options{Wait: c.Wait, Debt: c.Debt, Window: c.Window})
		case c.CountAll && c.Cost > 0:
			at[i].count(now, c.Cost, c.Debt, c.Window)
			charged = at[i].l.Limit > 0
			again := look(i, c.Cost, c.Debt)
			switch {
			case !passes:
				out[i].Decision = again
			case c.Mode == algo.Enforce && !again.OK:
				waits = append(waits, again.RetryAfter)
				fallthrough
			default:
				out[i].Decision = look(i, 0, c.Debt)
			}
		case v.OK && c.Mode == algo.Soft && countsOn(at[i].l) && at[i].l.Limit > 0:
			retry := out[i].RetryAfter
			d := at[i].decide(now, c.Cost, algo.Options{Force: true, Window: c.Window})
			d.OK, d.Allowed, d.RetryAfter = false, 0, retry
			out[i].Decision = d
		case v.OK && c.Mode == algo.Soft:
			retry := out[i].RetryAfter
			d := at[i].decide(now, c.Cost, algo.Options{AtMost: true, Debt: c.Debt})
			charged = d.OK && c.Cost > 0
			d.OK, d.Allowed, d.RetryAfter, d.Delay = false, 0, retry, 0
			out[i].Decision = d
		default:
			charged = false
			if passes && !v.OK {
				out[i].Decision = look(i, 0, c.Debt)
			}
		}
		if charged && !o.Peek {
			counters[i] = at[i]
		}
	}
	for i, c := range checks {
		if c.Mode != algo.Enforce {
			continue
		}
		d, room := out[i].Decision, int64(0)
		if v.OK {
			v.Delay = max(v.Delay, d.Delay)
			room = d.Remaining / max(c.Cost, 1)
		}
		b := v.Binding
		switch {
		case !v.OK && d.OK:
		case b < 0,
			v.OK && room < out[b].Remaining/max(checks[b].Cost, 1),
			!v.OK && d.RetryAfter == algo.Never && out[b].RetryAfter != algo.Never,
			!v.OK && out[b].RetryAfter != algo.Never && d.RetryAfter > out[b].RetryAfter:
			v.Binding = i
		}
	}
	return v, out, waits
}

// modelPolicy is what the test knows of the limits of a policy.
type modelPolicy struct {
	s       *engine.Session
	checks  []engine.Check
	limits  []algo.Limit
	foreign []bool
	states  []*modelCounter
}

func (m *modelPolicy) key(i int) []byte { return fmt.Appendf(nil, "@p:%d", i) }

// edit gives limit i other numbers, and perhaps voids its use.
func (m *modelPolicy) edit(rnd *rand.Rand, i int) {
	l := &m.limits[i]
	if *l == (algo.Limit{}) || rnd.IntN(4) == 0 {
		was := *l
		*l = algo.Limit{Algorithm: eachAlgorithm[rnd.IntN(len(eachAlgorithm))].OfPolicy(), Period: (1 + rnd.Int64N(20)) * second, Resets: was.Resets + 1}
		if rnd.IntN(4) == 0 {
			l.Algorithm, l.Period = algo.PolicyCalendar, 0
		}
	}
	if rnd.IntN(3) == 0 {
		l.Scalings++
	}
	l.Limit, l.Burst = rnd.Int64N(9), 0
	if rnd.IntN(9) > 0 {
		l.Limit++
	}
	if l.Limit > 0 && plain(*l).Algorithm <= algo.Leaky && rnd.IntN(2) == 0 {
		l.Burst = 1 + rnd.Int64N(12)
	}
	ready, err := m.s.Engine().Ready(*l)
	if err != nil {
		panic(err)
	}
	if m.checks[i].Limit != (engine.Ready{}) {
		m.s.Engine().Release(m.checks[i].Limit)
	}
	m.checks[i].Limit = ready
	if rnd.IntN(3) == 0 {
		m.s.Engine().CollectLimits()
	}
}

// windowOf is the window of a calendar at now, by some rules: windows of 7 and of 23
// seconds in turn.
func windowOf(now, rules int64) *algo.Window {
	begin := now - (now+rules*3*second)%(30*second)
	if end := begin + 7*second; now < end {
		return &algo.Window{End: end, Next: begin + 30*second}
	}
	return &algo.Window{End: begin + 30*second, Next: begin + 37*second}
}

// Steps over every mixture of algorithms, modes and options answer and charge by the
// definition of each limit.
func TestCheckAgainstModel(t *testing.T) {
	seeds, calls := 40, 500
	if testing.Short() {
		seeds = 5
	}
	for seed := range seeds {
		rnd := rand.New(rand.NewPCG(7, uint64(seed)))
		s := engine.New(engine.Config{Shards: 1 << rnd.IntN(4)}).NewSession()
		const n = 6
		m := &modelPolicy{s: s, checks: make([]engine.Check, n), limits: make([]algo.Limit, n), foreign: make([]bool, n), states: make([]*modelCounter, n)}
		for i := range n {
			m.checks[i].Key = m.key(i)
			m.checks[i].Hash = s.Engine().Table().Hash(m.checks[i].Key)
			m.edit(rnd, i)
			m.checks[i].Mode = algo.Mode(rnd.IntN(int(algo.Off) + 1))
			m.checks[i].CountAll = rnd.IntN(3) == 0
		}
		now, replaced := start, uint64(0)
		out, rules := make([]engine.Checked, n), make([]int64, n)
		for call := range calls {
			now += rnd.Int64N(4 * second)
			if rnd.IntN(20) == 0 {
				m.edit(rnd, rnd.IntN(n))
			}
			if i := rnd.IntN(60); i < n {
				m.checks[i].Mode = algo.Mode(rnd.IntN(int(algo.Off) + 1))
			} else if i -= n; i < n { // another kind of key takes the place
				_, err := s.Delete(now, m.key(i))
				require.NoError(t, err)
				_, err = s.Set(now, m.key(i), []byte("text"), &engine.SetOptions{})
				require.NoError(t, err)
				m.foreign[i], m.states[i] = true, nil
			}
			o := engine.CheckOptions{Peek: rnd.IntN(8) == 0, Denied: rnd.IntN(8) == 0}
			var checks []engine.Check
			var states []*modelCounter
			var at []int
			for i := range n {
				if rnd.IntN(3) == 0 {
					continue
				}
				c := m.checks[i]
				c.Cost = max(rnd.Int64N(5)-1, 0)
				c.Window = windowOf(now, rules[i])
				if rnd.IntN(30) == 0 {
					rules[i]++ // which moves no window that is open
				}
				if rnd.IntN(3) == 0 {
					c.Debt = rnd.Int64N(4)
				}
				if rnd.IntN(3) == 0 {
					c.Wait = []int64{algo.NoWait, second, 3 * second}[rnd.IntN(3)]
				}
				checks, states, at = append(checks, c), append(states, m.states[i]), append(at, i)
			}
			before := append([]*modelCounter(nil), states...)
			v, err := s.Check(now, checks, o, out)
			require.NoError(t, err)
			want, each := modelStep(now, checks, o, states)
			for j, i := range at {
				require.Equal(t, each[j], out[j], "seed %d call %d: limit %d %+v of %d, %+v, verdict %+v", seed, call, j, checks[j], len(at), m.limits[i], want)
				m.states[i] = states[j]
				if m.foreign[i] && states[j] != before[j] {
					m.foreign[i] = false
					replaced++
				}
			}
			require.Equal(t, want, v, "seed %d call %d", seed, call)
		}
		require.Equal(t, replaced, s.Engine().Replaced())
		s.Close()
	}
}

// countsOn reports whether a soft limit counts beyond its end.
func countsOn(l algo.Limit) bool {
	r := algo.Compile(l)
	return r.CountsOn()
}
