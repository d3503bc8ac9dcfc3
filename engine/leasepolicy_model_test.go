package engine_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/engine/reservation"
)

// TestLeasesOfPoliciesNeverOverdraw is the model of TestLeasesNeverOverdraw for policies of
// two and three limits: shared counters and private ones, holds that are settled for other
// costs, and edits while units are out. Each limit has a reference that is charged with the
// real spends, holds and settlements, and it must admit all of them.
func TestLeasesOfPoliciesNeverOverdraw(t *testing.T) {
	t.Parallel()
	runs := 240
	if testing.Short() {
		runs = 8
	}
	var all policyRunCounts
	for seed := range runs {
		r := &policyRun{t: t, rnd: rand.New(rand.NewPCG(uint64(seed), 27)), seed: seed}
		r.run()
		all.add(&r.policyRunCounts)
	}
	t.Logf("%+v", all)
	n := int64(runs)
	require.Greater(t, all.spent, 20*n, "units that holders spent")
	require.Greater(t, all.blocks, 3*n, "blocks that were granted")
	require.Greater(t, all.refills, n/4, "blocks with a refill")
	require.Greater(t, all.returned, n/2, "units that were returned")
	require.Greater(t, all.settled, n, "holds that were settled")
	require.Greater(t, all.refunded, n/4, "holds that were settled for less, on a counter with leases")
	require.Greater(t, all.edits, n, "edits")
	require.Greater(t, all.lowered, n/4, "limits that were lowered")
	require.Greater(t, all.raised, n/4, "limits that were raised")
	require.Greater(t, all.refused, n/20, "requests for which there was no room")
}

type policyRunCounts struct {
	spent, blocks, refills, returned, settled, refunded, edits, lowered, raised, refused int64
}

func (c *policyRunCounts) add(d *policyRunCounts) {
	c.spent += d.spent
	c.blocks += d.blocks
	c.refills += d.refills
	c.returned += d.returned
	c.settled += d.settled
	c.refunded += d.refunded
	c.edits += d.edits
	c.lowered += d.lowered
	c.raised += d.raised
	c.refused += d.refused
}

type policyRun struct {
	policyRunCounts
	t      *testing.T
	rnd    *rand.Rand
	seed   int
	now    int64
	limits []modelLimit
	server *engine.Session
	// oracle has a counter for each of the server's, which is charged with what is really
	// spent. After a limit was lowered it goes on under the old limit, while blocks from
	// before may be out. Then a new one begins with what is in use.
	oracle *engine.Session
	net    []policyMessage
	holds  []policyHold
	ids    int
	full   bool
}

// modelLimit is a limit of the policy.
type modelLimit struct {
	algo.Limit
	was   algo.Limit // before it was lowered, until a time
	until int64
	epoch int // of the oracle's counters
	mode  algo.Mode
	users int // how many users share a counter: 1, 2, or all
}

type policyClient struct {
	leaseClient
	user int
}

type policyMessage struct {
	at     int64
	client *policyClient
	sent   int64
	call   engine.PolicyLease
	user   int
	back   bool
	passed bool
	answer *engine.Leased
}

// policyHold is a hold of a caller. It is kept by each oracle under the same name.
type policyHold struct {
	key  string
	cost int64
	user int
}

const modelUsers = 4

func (r *policyRun) run() {
	algorithms := []algo.Algorithm{algo.PolicyToken, algo.PolicyToken, algo.PolicyToken, algo.PolicyFixed, algo.PolicySliding}
	for i := range 2 + r.rnd.IntN(2) {
		l := modelLimit{users: []int{1, 2, modelUsers}[r.rnd.IntN(3)]}
		l.Limit = algo.Limit{Algorithm: algorithms[r.rnd.IntN(len(algorithms))], Limit: 5 + r.rnd.Int64N(300), Period: int64(0.1e9) + r.rnd.Int64N(8e9)}
		if l.Algorithm == algo.PolicyToken {
			l.Burst = 5 + r.rnd.Int64N(200)
		}
		if i > 0 && r.rnd.IntN(4) == 0 {
			l.mode = algo.Shadow
		}
		r.limits = append(r.limits, l)
	}
	share := []uint32{1 << 30, 1 << 31, math.MaxUint32}[r.rnd.IntN(3)]
	r.now = 1_700_000_000_000_000_000 + r.rnd.Int64N(1e9)
	config := engine.Config{Shards: 2, LeaseShare: share}
	if r.full = r.seed%4 == 3; r.full {
		config.MaxBytes = 96 << 10
	}
	r.server, r.oracle = engine.New(config).NewSession(), engine.New(engine.Config{Shards: 1}).NewSession()
	var clients []*policyClient
	for range 1 + r.rnd.IntN(6) {
		clients = append(clients, r.client())
	}
	for end := r.now + int64(15e9); r.now < end; {
		r.now += r.rnd.Int64N(20e6) + 1
		if r.full {
			r.noise()
		}
		r.begin()
		r.deliver()
		i := r.rnd.IntN(len(clients))
		c := clients[i]
		switch n := r.rnd.IntN(1000); {
		case n < 250:
			r.ask(c)
		case n < 280:
			r.giveBack(c)
		case n < 290: // a crash
			clients[i] = r.client()
		case n < 360: // a plain caller
			r.check(r.rnd.IntN(modelUsers), 1+r.rnd.Int64N(4))
		case n < 430:
			r.hold(r.rnd.IntN(modelUsers), 1+r.rnd.Int64N(20))
		case n < 500:
			if len(r.holds) > 0 {
				r.settle()
			}
		case n < 505:
			r.edit()
		default:
			if r.now < c.deadline {
				if units := c.has(r.now); units > 0 {
					n := 1 + r.rnd.Int64N(units)
					if r.rnd.IntN(2) == 0 {
						n = units
					}
					c.stock -= n
					r.real(c.id, c.user, n)
					r.spent += n
				}
			}
		}
	}
}

func (r *policyRun) allow(err, also error) {
	if err != nil && (!r.full || !errors.Is(err, engine.ErrFull)) {
		require.ErrorIs(r.t, err, also, "seed %d", r.seed)
	}
}

// noise fills the table, or makes room.
func (r *policyRun) noise() {
	for range 4 {
		key := fmt.Appendf(nil, "noise:%d", r.rnd.IntN(2000))
		if r.rnd.IntN(3) == 0 {
			_, err := r.server.Delete(r.now, key)
			require.NoError(r.t, err)
			continue
		}
		_, err := r.server.Set(r.now, key, make([]byte, r.rnd.IntN(300)), &engine.SetOptions{})
		r.allow(err, nil)
	}
}

func (r *policyRun) client() *policyClient {
	r.ids++
	return &policyClient{leaseClient: leaseClient{id: fmt.Sprint("c", r.ids), drift: 1 + (r.rnd.Float64()-0.5)*1e-3}, user: r.rnd.IntN(modelUsers)}
}

// checks are those of a call of a user.
func (r *policyRun) checks(s *engine.Session, user int, cost int64) (all []engine.Check) {
	for i := range r.limits {
		l := &r.limits[i]
		key := fmt.Sprintf("@p:%d;u=%d", i, user/l.users)
		limit := l.Limit
		if s == r.oracle {
			if key += fmt.Sprint(";", l.epoch); l.until > 0 {
				limit = l.was
			}
		}
		ready, err := s.Ready(limit)
		require.NoError(r.t, err)
		all = append(all, engine.Check{Key: []byte(key), Hash: hashOf(s, key), Limit: ready, Cost: cost, Mode: l.mode})
	}
	return all
}

// begin begins counters of the oracle under limits that were lowered so long ago that no
// block from before is out. What is out was granted under the new limit, and may have been
// spent or not.
func (r *policyRun) begin() {
	for i := range r.limits {
		l := &r.limits[i]
		if l.until == 0 || r.now < l.until {
			continue
		}
		l.until, r.holds = 0, nil // the new counters know of no hold
		l.epoch++
		for user := 0; user < modelUsers; user += l.users {
			c := r.checks(r.server, user, 0)[i]
			var out [1]engine.Checked
			_, err := r.server.Check(r.now, []engine.Check{c}, engine.CheckOptions{Peek: true}, out[:])
			require.NoError(r.t, err)
			units, _, err := r.server.Leases().OutOf(r.now, c.Key, c.Hash)
			require.NoError(r.t, err)
			used := r.checks(r.oracle, user, l.Capacity()-out[0].Remaining-units-1)[i]
			if used.Cost > 0 {
				_, err = r.oracle.Check(r.now, []engine.Check{used}, engine.CheckOptions{Force: true}, out[:])
				require.NoError(r.t, err)
			}
		}
	}
}

// real charges the oracles, which have to admit it.
func (r *policyRun) real(who string, user int, units int64) {
	r.each(user, units, func(s *engine.Session, c engine.Check, l *modelLimit) {
		var out [1]engine.Checked
		v, err := s.Check(r.now, []engine.Check{c}, engine.CheckOptions{}, out[:])
		require.NoError(r.t, err)
		require.True(r.t, v.OK || l.mode != algo.Enforce, "seed %d: %s spent %d units of %+v, and %d are left", r.seed, who, units, c.Limit.Limit(), out[0].Remaining)
	})
}

// each calls f for each limit, with its oracle.
func (r *policyRun) each(user int, cost int64, f func(s *engine.Session, c engine.Check, l *modelLimit)) {
	for i, c := range r.checks(r.oracle, user, cost) {
		f(r.oracle, c, &r.limits[i])
	}
}

func (r *policyRun) check(user int, cost int64) {
	v, err := r.server.Check(r.now, r.checks(r.server, user, cost), engine.CheckOptions{}, make([]engine.Checked, 3))
	r.allow(err, nil)
	if v.OK {
		r.real("a plain caller", user, cost)
	}
}

func modelReserve(key string, n int) *engine.Reserve {
	q := &engine.Reserve{Key: []byte(key), TTL: minute, Keep: 10 * minute, Limits: make([]reservation.Held, n)}
	for i := range q.Limits {
		q.Limits[i] = reservation.Held{Name: fmt.Sprint("l", i), Each: 1}
	}
	return q
}

// hold reserves units of the server, and of the oracles.
func (r *policyRun) hold(user int, cost int64) {
	r.ids++
	h := policyHold{key: fmt.Sprint("h", r.ids), cost: cost, user: user}
	checks := r.checks(r.server, user, cost)
	v, err := r.server.Reserve(r.now, checks, engine.CheckOptions{}, make([]engine.Checked, 3), modelReserve(h.key, len(checks)))
	r.allow(err, nil)
	if !v.OK {
		return
	}
	r.each(user, cost, func(s *engine.Session, c engine.Check, l *modelLimit) {
		v, err := s.Reserve(r.now, []engine.Check{c}, engine.CheckOptions{}, make([]engine.Checked, 1), modelReserve(h.key+string(c.Key), 1))
		require.NoError(r.t, err)
		require.True(r.t, v.OK || l.mode != algo.Enforce, "seed %d: a hold of %d units of %+v", r.seed, cost, c.Limit.Limit())
	})
	r.holds = append(r.holds, h)
}

// room reports whether all limits have room for units of a user. A settlement that charges
// more than there is room for takes a limit beyond its capacity: holders then spend beyond
// it, too.
func (r *policyRun) room(user int, units int64) bool {
	var out [3]engine.Checked
	checks := r.checks(r.server, user, units)
	for i := range checks {
		checks[i].Mode = algo.Enforce
	}
	v, err := r.server.Check(r.now, checks, engine.CheckOptions{Peek: true}, out[:])
	require.NoError(r.t, err)
	return v.OK
}

// settle settles a hold for less, seldom for more.
func (r *policyRun) settle() {
	i := r.rnd.IntN(len(r.holds))
	h := r.holds[i]
	r.holds = append(r.holds[:i], r.holds[i+1:]...)
	cost := r.rnd.Int64N(h.cost + 1)
	if more := r.rnd.Int64N(3); r.rnd.IntN(8) == 0 && r.room(h.user, more) {
		cost = h.cost + more
	}
	how := engine.Settlement{State: reservation.Committed, Cost: func(*reservation.Held) (int64, bool, error) { return cost, true, nil }}
	for _, c := range r.checks(r.server, h.user, 0) {
		if _, holders, err := r.server.Leases().OutOf(r.now, c.Key, c.Hash); err == nil && holders > 0 && cost < h.cost {
			r.refunded++
		}
	}
	_, err := r.server.Settle(r.now, []byte(h.key), how)
	r.allow(err, engine.ErrNoHold)
	r.settled++
	if err != nil {
		return
	}
	r.each(h.user, 0, func(s *engine.Session, c engine.Check, _ *modelLimit) {
		_, err := s.Settle(r.now, []byte(h.key+string(c.Key)), how)
		if err != nil {
			require.ErrorIs(r.t, err, engine.ErrNoHold)
		}
	})
}

// edit raises, lowers or resets a limit.
func (r *policyRun) edit() {
	at := r.rnd.IntN(len(r.limits))
	l := &r.limits[at]
	if l.until > 0 {
		return
	}
	r.edits++
	if r.rnd.IntN(4) == 0 && l.Algorithm != algo.PolicySliding && !r.full {
		r.lowered++
		l.was, l.until = l.Limit, r.now+int64(2.5e9) // no block lasts longer
		l.Limit.Limit -= r.rnd.Int64N(l.Limit.Limit)
		if l.Burst > 0 {
			l.Burst -= r.rnd.Int64N(l.Burst)
		}
		r.holds = nil
		// A counter is under the old limit until it is charged.
		for user := 0; user < modelUsers; user += l.users {
			_, err := r.server.Check(r.now, r.checks(r.server, user, 1)[at:at+1], engine.CheckOptions{Force: true}, make([]engine.Checked, 1))
			require.NoError(r.t, err)
		}
		return
	}
	if r.rnd.IntN(3) == 0 || l.Limit.Limit > 3000 {
		l.Resets++
		return
	}
	was := l.Limit
	l.Limit.Limit += r.rnd.Int64N(l.Limit.Limit)
	if l.Burst > 0 {
		l.Burst += r.rnd.Int64N(l.Burst)
	}
	// A counter takes over a part of a unit that depends on the time. So all are charged at
	// once.
	for user := 0; user < modelUsers; user += l.users {
		if r.full || !r.room(user, 1) {
			l.Limit = was
			return
		}
	}
	for user := 0; user < modelUsers; user += l.users {
		for _, s := range []*engine.Session{r.server, r.oracle} {
			c := r.checks(s, user, 1)[at : at+1]
			v, err := s.Check(r.now, c, engine.CheckOptions{}, make([]engine.Checked, 1))
			require.NoError(r.t, err)
			require.True(r.t, v.OK || l.mode != algo.Enforce)
		}
	}
	r.raised++
}

func (r *policyRun) delay() int64 {
	if r.rnd.IntN(4) == 0 {
		return r.rnd.Int64N(300e6)
	}
	return r.rnd.Int64N(2e6)
}

func (r *policyRun) send(m policyMessage) {
	if r.rnd.IntN(10) == 0 { // lost
		return
	}
	m.at = r.now + r.delay()
	r.net = append(r.net, m)
	if r.rnd.IntN(20) == 0 { // twice
		m.at += r.delay()
		r.net = append(r.net, m)
	}
}

func (c *policyClient) held(now int64) int64 {
	if now < c.deadline {
		return c.has(now)
	}
	return 0
}

func (r *policyRun) ask(c *policyClient) {
	held := c.held(r.now)
	c.stock, c.refill, c.taken = held, 0, 0 // nothing becomes due until the answer
	c.seq++
	r.send(policyMessage{client: c, sent: r.now, user: c.user, call: engine.PolicyLease{
		Policy: "p", ID: []byte(c.id), Whole: true,
		Request: algo.Request{Seq: c.seq, Want: r.rnd.Int64N(200), Held: held, Need: r.rnd.Int64N(3), TTL: algo.MinLease + r.rnd.Int64N(2e9)},
	}})
}

func (r *policyRun) giveBack(c *policyClient) {
	held := c.held(r.now)
	c.seq++
	r.send(policyMessage{client: c, back: true, user: c.user, call: engine.PolicyLease{ID: []byte(c.id), Request: algo.Request{Seq: c.seq, Held: held}}})
	*c = *r.client()
}

// deliver handles the messages that have arrived.
func (r *policyRun) deliver() {
	net := r.net
	r.net = nil
	for _, m := range net {
		switch {
		case m.at > r.now:
			r.net = append(r.net, m)
		case m.answer != nil:
			m.client.hear(r.now, &m)
		case m.back:
			units, err := r.server.Leases().ReturnAll(r.now, "p", m.call.ID, m.call.Seq, m.call.Held, r.checks(r.server, m.user, 0))
			r.allow(err, engine.ErrLeaseSeq)
			r.returned += units
		default:
			call := m.call
			v, a, err := r.server.Leases().TakeAll(r.now, &call, r.checks(r.server, m.user, call.Need), engine.CheckOptions{}, make([]engine.Checked, 3))
			if err != nil {
				r.allow(err, engine.ErrLeaseSeq)
				if errors.Is(err, engine.ErrFull) {
					r.refused++
				}
				continue
			}
			if v.OK && call.Need > 0 {
				r.real("need of "+string(call.ID), m.user, call.Need)
			}
			if a.TTL > 0 {
				r.blocks++
			}
			if a.Refill > 0 {
				r.refills++
			}
			m.answer, m.passed = &a, v.OK
			r.send(m)
		}
	}
}

// hear takes an answer.
func (c *policyClient) hear(now int64, m *policyMessage) {
	if string(m.call.ID) != c.id || m.call.Seq != c.seq || c.answered == c.seq {
		return
	}
	c.answered = c.seq
	if m.answer.TTL == 0 {
		c.stock, c.refill, c.deadline = 0, 0, 0
		return
	}
	need := int64(0)
	if m.passed {
		need = m.call.Need
	}
	if now >= c.deadline {
		c.stock = 0
	}
	c.stock += m.answer.Granted - need
	c.deadline = m.sent + int64(float64(m.answer.TTL)*(1-1e-3))
	c.refill, c.taken = m.answer.Refill, 0
	c.began, c.ends = now, now+m.answer.RefillTime
}
