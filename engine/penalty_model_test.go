package engine_test

import (
	"fmt"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/engine/algo"
)

// modelOffender is what a limit's penalty knows of a caller, by its definition.
type modelOffender struct {
	strikes []int64 // that count together
	blocks  []modelBlock
	epoch   uint16
	// forgotten is when nothing of this counts any more, by the penalty at the time of
	// the strike, whatever an edit says later.
	forgotten int64
}

// modelBlock is a block, the n-th of consecutive ones, from 0.
type modelBlock struct{ begin, length, n int64 }

// blockLength returns how long the n-th block is: block * factor^n.
func blockLength(p *engine.Penalty, n int64) int64 {
	length := new(big.Int).Exp(big.NewInt(p.Factor), big.NewInt(n), nil)
	length.Mul(length, big.NewInt(p.Block))
	if most := big.NewInt(p.Max); length.Cmp(most) > 0 {
		length = most
	}
	return length.Int64()
}

// last returns when the last block ends, if there was one.
func (m *modelOffender) last(p *engine.Penalty) (end int64, was bool) {
	if len(m.blocks) == 0 {
		return 0, false
	}
	b := m.blocks[len(m.blocks)-1]
	return b.begin + min(b.length, blockLength(p, b.n)), true
}

// strike counts one, and reports whether it leads to a block.
func (m *modelOffender) strike(p *engine.Penalty, now, period int64) bool {
	within := p.Within
	if within == 0 {
		within = period
	}
	if len(m.strikes) > 0 && m.strikes[0]+within <= now {
		m.strikes = nil
	}
	m.strikes = append(m.strikes, now)
	if int64(len(m.strikes)) < p.After {
		m.forgotten = m.strikes[0] + within
		if n := len(m.blocks); n > 0 {
			m.forgotten = max(m.forgotten, m.blocks[n-1].begin+m.blocks[n-1].length+p.Max)
		}
		return false
	}
	b := modelBlock{begin: now}
	if end, was := m.last(p); was && now < end+p.Max {
		b.n = m.blocks[len(m.blocks)-1].n + 1
	}
	b.length = blockLength(p, b.n)
	m.strikes, m.blocks = nil, append(m.blocks, b)
	m.forgotten = now + b.length + p.Max
	return true
}

// alone has penalties look at a check as if it counted admitted calls only.
func alone(c engine.Check) engine.Check {
	c.CountAll = false
	return c
}

// modelPenalties is Session.Check by its definition, over modelStep, which knows no
// penalties.
func modelPenalties(now int64, checks []engine.Check, o engine.CheckOptions, counters []*modelCounter, offenders []*modelOffender) (engine.Verdict, []engine.Checked) {
	type limit struct {
		until   int64
		strikes bool
	}
	limits := make([]limit, len(checks))
	blocked := false
	looks := make([]engine.Check, len(checks))
	for i, c := range checks {
		looks[i] = alone(c)
		p := c.Penalty
		if p == nil || c.Mode != algo.Enforce {
			continue
		}
		if offenders[i].epoch != p.Epoch || offenders[i].forgotten <= now {
			*offenders[i] = modelOffender{epoch: p.Epoch}
		}
		if end, was := offenders[i].last(p); was && now < end {
			limits[i].until, blocked = end, true
		}
		_, own := modelStep(now, []engine.Check{alone(c)}, engine.CheckOptions{Peek: true}, []*modelCounter{counters[i]})
		limits[i].strikes = !own[0].OK && own[0].RetryAfter != algo.Never && c.Cost > 0
	}
	asked := checks
	if blocked {
		asked, o = looks, engine.CheckOptions{Peek: true, Denied: true}
	}
	v, out, waits := modelCharges(now, asked, o, counters)
	first, begun := -1, false
	later := func(a, b int64) bool { return b != algo.Never && (a == algo.Never || a > b) }
	for i, l := range limits {
		p := checks[i].Penalty
		if l.strikes && !blocked && !o.Peek && offenders[i].strike(p, now, checks[i].Limit.Limit().Period) {
			l.until, _ = offenders[i].last(p)
			begun = true
		}
		if l.until == 0 {
			continue
		}
		retry := l.until - now
		if d := out[i].Decision; !d.OK && later(d.RetryAfter, retry) {
			retry = d.RetryAfter
		}
		out[i].Decision = algo.Decision{Limit: out[i].Limit, RetryAfter: retry, ResetAfter: out[i].ResetAfter}
		if first < 0 || later(retry, out[first].RetryAfter) {
			first = i
		}
	}
	if first >= 0 {
		v = engine.Verdict{Binding: first, Penalty: true, Begun: begun}
	}
	if v.OK || v.Binding < 0 {
		return v, out
	}
	for i, c := range checks {
		if c.Mode == algo.Enforce && !out[i].OK {
			waits = append(waits, out[i].RetryAfter)
		}
	}
	out[v.Binding].RetryAfter = longestModel(waits)
	return v, out
}

// penaltyHistory is one random history of calls of a caller on some limits.
func penaltyHistory(t *testing.T, seed uint64, calls int) (blocks int) {
	rnd := rand.New(rand.NewPCG(13, seed))
	s := engine.New(engine.Config{Shards: 1 << rnd.IntN(3)}).NewSession()
	defer s.Close()
	n := 1 + rnd.IntN(3)
	m := &modelPolicy{s: s, checks: make([]engine.Check, n), limits: make([]algo.Limit, n)}
	counters, offenders := make([]*modelCounter, n), make([]*modelOffender, n)
	epochs := make([]uint16, n)
	edit := func(i int) {
		// Penalties do not depend on the denying algorithm, and the model of buckets is
		// slow.
		for m.edit(rnd, i); seed%8 != 0 && m.limits[i].Limit > 0 && plain(m.limits[i]).Algorithm <= algo.Leaky; {
			m.edit(rnd, i)
		}
	}
	penalty := func(i int) {
		c := &m.checks[i]
		if rnd.IntN(5) == 0 {
			if c.Penalty != nil { // to take it away forgives
				epochs[i]++
			}
			c.Penalty = nil
			return
		}
		p := engine.Penalty{After: 1 + rnd.Int64N(3), Within: rnd.Int64N(3) * 7 * second, Block: (1 + rnd.Int64N(15)) * second, Factor: 1 + rnd.Int64N(3), Epoch: epochs[i]}
		p.Max = p.Block + rnd.Int64N(60)*second
		if m.limits[i].Period == 0 && p.Within == 0 {
			p.Within = 20 * second
		}
		c.Penalty = &p
	}
	for i := range n {
		m.checks[i].Key = m.key(i)
		m.checks[i].Hash = s.Engine().Table().Hash(m.checks[i].Key)
		m.checks[i].Mode = []algo.Mode{algo.Enforce, algo.Enforce, algo.Enforce, algo.Enforce, algo.Soft, algo.Shadow, algo.Off}[rnd.IntN(7)]
		m.checks[i].CountAll = rnd.IntN(4) == 0
		edit(i)
		offenders[i] = &modelOffender{}
		penalty(i)
	}
	now, out := start, make([]engine.Checked, n)
	for call := range calls {
		now += []int64{0, rnd.Int64N(second), rnd.Int64N(5 * second), rnd.Int64N(40 * second)}[rnd.IntN(4)]
		i := rnd.IntN(n)
		switch rnd.IntN(25) {
		case 0:
			resets := m.limits[i].Resets
			edit(i)
			epochs[i] += m.limits[i].Resets - resets // CHANGE RESET
			penalty(i)
		case 1, 2:
			penalty(i)
		case 3:
			m.checks[i].Mode = []algo.Mode{algo.Enforce, algo.Enforce, algo.Soft, algo.Shadow, algo.Off}[rnd.IntN(5)]
		case 4: // RL.POLICY RESET of the caller
			for i := range n {
				_, err := s.Delete(now, m.key(i))
				require.NoError(t, err)
				_, err = s.Forgive(now, m.key(i), nil)
				require.NoError(t, err)
				counters[i], offenders[i] = nil, &modelOffender{}
			}
		case 5: // and of the policy
			epochs[i]++
			if p := m.checks[i].Penalty; p != nil {
				next := *p
				next.Epoch = epochs[i]
				m.checks[i].Penalty = &next
			}
		}
		checks := append([]engine.Check(nil), m.checks...)
		for i := range checks {
			checks[i].Cost = []int64{0, 1, 1, 1, 2, 3}[rnd.IntN(6)]
			checks[i].Window = windowOf(now, 0)
			if rnd.IntN(6) == 0 {
				checks[i].Debt = rnd.Int64N(4)
			}
		}
		o := engine.CheckOptions{Peek: rnd.IntN(6) == 0, Denied: rnd.IntN(12) == 0}
		v, err := s.Check(now, checks, o, out)
		require.NoError(t, err)
		want, each := modelPenalties(now, checks, o, counters, offenders)
		for i := range each {
			require.Equal(t, each[i], out[i], "seed %d call %d: limit %d %+v, penalty %+v, offender %+v, wanted %+v", seed, call, i, checks[i], checks[i].Penalty, offenders[i], want)
		}
		require.Equal(t, want, v, "seed %d call %d", seed, call)
		for i := range checks {
			if p := checks[i].Penalty; p != nil {
				is := s.Engine().Offender(now, checks[i].Key, checks[i].Hash, m.limits[i], p)
				until := int64(0)
				if end, was := offenders[i].last(p); was && now < end && offenders[i].epoch == p.Epoch {
					until = end
				}
				require.Equal(t, until, is.BlockedUntil, "seed %d call %d: limit %d", seed, call, i)
			}
		}
		if v.Penalty {
			blocks++
		}
	}
	for i := range n {
		s.Engine().Release(m.checks[i].Limit)
	}
	return blocks
}

// Histories over every mixture of algorithms, modes, penalties and edits, with
// forgiveness and time, answer what the definition says.
func TestPenaltiesAgainstModel(t *testing.T) {
	histories, calls := 20_000, 12
	if testing.Short() {
		histories = 1000
	}
	for part := range 4 {
		t.Run(fmt.Sprint(part), func(t *testing.T) {
			t.Parallel()
			blocks := 0
			for seed := part; seed < histories; seed += 4 {
				blocks += penaltyHistory(t, uint64(seed), calls)
			}
			require.Greater(t, blocks, histories/8, "callers are blocked")
		})
	}
}
