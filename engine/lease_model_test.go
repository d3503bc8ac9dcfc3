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
)

// leaseClient is a holder that spends as much of its block as it may, and whenever it
// may. It follows the client's rules: HELD is absolute, an answer to any request but the
// last one is dropped, nothing becomes due between a request and its answer, and its times
// begin when it sent.
type leaseClient struct {
	id       string
	seq      uint64
	answered uint64
	stock    int64 // units that it has
	deadline int64
	refill   int64 // not yet due, evenly from began to ends
	began    int64
	ends     int64
	taken    int64 // of the refill
	drift    float64
}

// has brings what is due to the stock.
func (c *leaseClient) has(now int64) int64 {
	if c.refill > 0 {
		elapsed := int64(float64(now-c.began) * c.drift * (1 - 1e-3))
		due := c.refill
		if length := c.ends - c.began; elapsed < length {
			due = int64(float64(c.refill) * float64(elapsed) / float64(length))
		}
		if due > c.taken {
			c.stock, c.taken = c.stock+due-c.taken, due
		}
	}
	return c.stock
}

type leaseMessage struct {
	at     int64
	client *leaseClient
	sent   int64
	call   engine.Lease
	back   bool // RETURN
	held   int64
	seq    uint64
	answer *engine.Leased
	id     string
}

// TestLeasesNeverOverdraw is a model of clients, callers and a network, all of which do
// what they can to admit too much, against a limit that is charged with the real spends.
func TestLeasesNeverOverdraw(t *testing.T) {
	t.Parallel()
	runs := 800 // seed 684 is the first one that finds refills that are not out
	if testing.Short() {
		runs = 12
	}
	spent, blocks, refused := int64(0), 0, 0
	for seed := range runs {
		r := &leaseRun{t: t, rnd: rand.New(rand.NewPCG(uint64(seed), 27)), seed: seed}
		r.run()
		spent, blocks, refused = spent+r.spent, blocks+r.blocks, refused+r.refused
	}
	require.Greater(t, spent, int64(runs)*50, "units that holders spent")
	require.Greater(t, blocks, runs*5, "blocks that were granted")
	require.Greater(t, refused, runs/5, "requests for which there was no room")
}

type leaseRun struct {
	t      *testing.T
	rnd    *rand.Rand
	seed   int
	now    int64
	limit  algo.Limit
	server *engine.Session
	oracle *engine.Session
	net    []leaseMessage
	spent  int64
	blocks int
	ids    int
	share  uint32
	// many is set for a limit with hundreds of holders, full for a table that is at times
	// out of memory.
	many, full bool
	refused    int // requests for which there was no room
}

const leaseKey, oracleKey = "k", "o"

func (r *leaseRun) run() {
	algorithms := []algo.Algorithm{algo.Token, algo.Token, algo.Token, algo.Fixed, algo.Sliding}
	r.limit = algo.Limit{Algorithm: algorithms[r.rnd.IntN(len(algorithms))], Limit: 5 + r.rnd.Int64N(200), Period: int64(0.1e9) + r.rnd.Int64N(8e9)}
	if r.limit.Algorithm == algo.Token {
		r.limit.Burst = 5 + r.rnd.Int64N(200)
	}
	if r.many = r.seed%50 == 49; r.many {
		r.limit.Limit *= 100
		r.limit.Burst *= 100
	}
	r.full = r.seed%4 == 3
	r.share = []uint32{1 << 30, 1 << 31, math.MaxUint32}[r.rnd.IntN(3)]
	r.now = 1_700_000_000_000_000_000 + r.rnd.Int64N(1e9)
	r.server, r.oracle = engine.New(engine.Config{Shards: 2, LeaseShare: r.share}).NewSession(), engine.New(engine.Config{Shards: 1}).NewSession()
	most, pace := 5, int64(20e6)
	if r.many {
		most, pace = 300, int64(2e6)
	}
	if r.full {
		r.server = engine.New(engine.Config{Shards: 2, LeaseShare: r.share, MaxBytes: 96 << 10}).NewSession()
	}
	var clients []*leaseClient
	for range max(1+r.rnd.IntN(most), most/5) {
		clients = append(clients, r.client())
	}
	end := r.now + int64(20e9)
	for r.now < end {
		r.now += r.rnd.Int64N(pace) + 1
		if r.full {
			r.noise()
		}
		r.deliver()
		i := r.rnd.IntN(len(clients))
		c := clients[i]
		switch n := r.rnd.IntN(100); {
		case n < 25:
			r.ask(c)
		case n < 28:
			r.giveBack(c)
		case n < 29: // a crash
			clients[i] = r.client()
		case n < 30 && r.rnd.IntN(3) == 0:
			r.giveUp()
		case n < 40: // a plain caller, of a weight
			cost := 1 + r.rnd.Int64N(4)
			d, err := r.server.Decide(r.now, []byte(leaseKey), r.limit, cost, nil)
			r.allow(err, engine.ErrFull)
			if d.OK {
				r.real("a plain caller", cost)
			}
		default:
			if r.now < c.deadline {
				if units := c.has(r.now); units > 0 {
					n := 1 + r.rnd.Int64N(units)
					if r.rnd.IntN(2) == 0 {
						n = units
					}
					c.stock -= n
					r.real(c.id, n)
					r.spent += n
				}
			}
		}
	}
}

// allow fails the test for errors other than ErrFull, of a full table, and also.
func (r *leaseRun) allow(err, also error) {
	if err != nil && (!r.full || !errors.Is(err, engine.ErrFull)) {
		require.ErrorIs(r.t, err, also)
	}
}

// noise fills the table, or makes room.
func (r *leaseRun) noise() {
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

// giveUp refunds units of plain callers, or resets the limit.
func (r *leaseRun) giveUp() {
	if r.rnd.IntN(10) == 0 {
		_, err := r.server.Leases().Reset(r.now, []byte(leaseKey))
		require.NoError(r.t, err)
		_, err = r.oracle.Delete(r.now, []byte(oracleKey))
		require.NoError(r.t, err)
		return
	}
	units := -1 - r.rnd.Int64N(2*r.limit.Capacity())
	_, err := r.server.Decide(r.now, []byte(leaseKey), r.limit, units, nil)
	r.allow(err, nil)
	_, err = r.oracle.Decide(r.now, []byte(oracleKey), r.limit, units, nil)
	require.NoError(r.t, err)
}

func (r *leaseRun) client() *leaseClient {
	r.ids++
	return &leaseClient{id: fmt.Sprint("c", r.ids), drift: 1 + (r.rnd.Float64()-0.5)*1e-3}
}

// real charges the oracle, which has to admit it.
func (r *leaseRun) real(who string, units int64) {
	d, err := r.oracle.Decide(r.now, []byte(oracleKey), r.limit, units, nil)
	require.NoError(r.t, err)
	require.True(r.t, d.OK, "seed %d: %s spent %d units of %+v, and %d are left", r.seed, who, units, r.limit, d.Remaining)
}

// delay is how long a message takes.
func (r *leaseRun) delay() int64 {
	if r.rnd.IntN(4) == 0 {
		return r.rnd.Int64N(int64(300e6))
	}
	return r.rnd.Int64N(int64(2e6))
}

func (r *leaseRun) send(m leaseMessage) {
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

func (r *leaseRun) ask(c *leaseClient) {
	held := int64(0)
	if r.now < c.deadline {
		held = c.has(r.now)
	}
	c.stock, c.refill, c.taken = held, 0, 0 // nothing becomes due until the answer
	c.seq++
	r.send(leaseMessage{client: c, sent: r.now, call: engine.Lease{
		Key: []byte(leaseKey), Limit: r.limit, ID: []byte(c.id),
		Request: algo.Request{Seq: c.seq, Want: r.rnd.Int64N(200), Held: held, Need: r.rnd.Int64N(3), TTL: algo.MinLease + r.rnd.Int64N(2e9)},
	}})
}

func (r *leaseRun) giveBack(c *leaseClient) {
	held := int64(0)
	if r.now < c.deadline {
		held = c.has(r.now)
	}
	c.seq++
	r.send(leaseMessage{client: c, back: true, held: held, seq: c.seq, id: c.id})
	*c = *r.client()
}

// deliver handles the messages that have arrived.
func (r *leaseRun) deliver() {
	net := r.net
	r.net = nil
	for _, m := range net {
		switch {
		case m.at > r.now:
			r.net = append(r.net, m)
		case m.answer != nil:
			c := m.client
			if string(m.call.ID) != c.id || m.call.Seq != c.seq || c.answered == c.seq {
				continue
			}
			c.answered = c.seq
			if m.answer.TTL == 0 {
				c.stock, c.refill, c.deadline = 0, 0, 0
				continue
			}
			need := int64(0)
			if m.answer.OK {
				need = m.call.Need
			}
			if r.now >= c.deadline {
				c.stock = 0
			}
			c.stock += m.answer.Granted - need
			c.deadline = m.sent + int64(float64(m.answer.TTL)*(1-1e-3))
			c.refill, c.taken = m.answer.Refill, 0
			c.began, c.ends = r.now, r.now+m.answer.RefillTime
		case m.back:
			_, err := r.server.Leases().Return(r.now, []byte(leaseKey), []byte(m.id), m.seq, m.held)
			if err != nil {
				r.allow(err, engine.ErrLeaseSeq)
			}
		default:
			call := m.call
			a, err := r.server.Leases().Take(r.now, &call)
			if err != nil {
				r.allow(err, engine.ErrLeaseSeq)
				if errors.Is(err, engine.ErrFull) {
					r.refused++
				}
				continue
			}
			if a.OK && call.Need > 0 {
				r.real("need of "+string(call.ID), call.Need)
			}
			if a.TTL > 0 {
				r.blocks++
			}
			m.answer = &a
			r.send(m)
		}
	}
}
