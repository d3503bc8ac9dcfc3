package engine_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/engine/reservation"
)

// # Slots of policies by their definition
//
// A hold has charges and slots. Charges are settled once. Slots end by themselves, by a
// settlement or with a reset, and a repeat takes them anew.

// slotModel is a policy of two limits of slots and a quota, and all holds on it.
type slotModel struct {
	limits [2]slotLimit
	quota  int64 // per quotaWindow
	used   int64
	holds  map[string]*modelHold
}

type slotLimit struct {
	n, ttl, cost int64
	mode         algo.Mode
	taken        map[string]modelSlot // by hold
}

type modelSlot struct{ cost, ends int64 }

type modelHold struct {
	state          reservation.State
	ends, keep     int64
	until          int64 // it is forgotten then
	releases       bool
	charged, limit int64 // of the quota
	ttls           [2]int64
	costs          [2]int64 // of slots that it took at first
}

func (l *slotLimit) sum(now int64) (used, last int64) {
	for _, s := range l.taken {
		if s.ends > now {
			used, last = used+s.cost, max(last, s.ends)
		}
	}
	return used, last
}

// wait is how long until cost slots are free if nobody settles.
func (l *slotLimit) wait(now, cost int64) int64 {
	if cost > l.n {
		return algo.Never
	}
	used, _ := l.sum(now)
	live := []modelSlot{}
	for _, s := range l.taken {
		if s.ends > now {
			live = append(live, s)
		}
	}
	slices.SortFunc(live, func(a, b modelSlot) int { return cmp.Compare(a.ends, b.ends) })
	for _, s := range live {
		if used -= s.cost; used <= l.n-cost {
			return s.ends - now
		}
	}
	panic("there is room")
}

// modelVerdict is the answer to a call.
type modelVerdict struct {
	ok      bool
	binding int
	retry   int64
	left    [3]int64
}

// call is a check that asks for slots and units of the quota.
func (m *slotModel) call(now int64, id string, named, plain bool, ttl, units int64) modelVerdict {
	v := modelVerdict{ok: true, binding: -1}
	quota := units == 0 || m.used+units <= m.quota
	var room [2]bool
	for i := range m.limits {
		l := &m.limits[i]
		used, _ := l.sum(now)
		room[i] = l.cost == 0 || used+l.cost <= l.n
		v.ok = v.ok && (room[i] || l.mode != algo.Enforce)
	}
	v.ok = v.ok && quota
	if !v.ok {
		for i := range m.limits {
			l := &m.limits[i]
			if room[i] || l.mode != algo.Enforce {
				continue
			}
			if wait := l.wait(now, l.cost); v.binding < 0 || v.retry != algo.Never && (wait == algo.Never || wait > v.retry) {
				v.binding, v.retry = i, wait
			}
		}
		if !quota && v.retry != algo.Never {
			v.binding = 2
			if v.retry = quotaWindow - now%quotaWindow; units > m.quota {
				v.retry = algo.Never
			}
		}
		m.left(now, &v)
		return v
	}
	h := &modelHold{state: reservation.Open, keep: slotsKeep, charged: units, limit: units, releases: !plain}
	held := !plain
	if held {
		h.ends = now + max(ttl, minute)
		if ttl != 0 {
			h.ends = now + ttl
		}
	}
	for i := range m.limits {
		l := &m.limits[i]
		if h.ttls[i] = l.ttl; ttl != 0 {
			h.ttls[i] = ttl
		}
		if l.cost == 0 || !room[i] && l.mode != algo.Soft {
			continue
		}
		held, h.costs[i] = true, l.cost
		l.taken[id] = modelSlot{l.cost, now + h.ttls[i]}
		h.ends = max(h.ends, now+h.ttls[i])
	}
	m.used += units
	switch {
	case held:
		h.until = h.ends + reservation.UnsettledFor
		m.holds[id] = h
	case named:
		h.state, h.until = reservation.None, now+slotsKeep
		m.holds[id] = h
	}
	m.left(now, &v)
	return v
}

func (m *slotModel) left(now int64, v *modelVerdict) {
	for i := range m.limits {
		used, _ := m.limits[i].sum(now)
		v.left[i] = max(m.limits[i].n-used, 0)
	}
	v.left[2] = max(m.quota-m.used, 0)
}

// pass lets time pass: it settles holds that have ended.
func (m *slotModel) pass(now int64) {
	for id, h := range m.holds {
		if h.until < now {
			delete(m.holds, id)
		} else if h.state == reservation.Open && h.ends <= now {
			m.end(now, h)
		}
	}
}

// end settles the charges of a hold by its end.
func (m *slotModel) end(now int64, h *modelHold) {
	h.state = reservation.Charged
	if h.releases {
		h.state = reservation.Released
		m.used -= h.charged
		h.charged = 0
	}
	h.until = now + h.keep
}

// settle ends the slots of a hold, and its charges unless they are settled.
func (m *slotModel) settle(now int64, id string, to reservation.State) (reservation.State, bool) {
	h := m.holds[id]
	if h == nil || h.state == reservation.None {
		return 0, false
	}
	if h.state == reservation.Open && now >= h.ends {
		m.end(now, h)
	}
	for i := range m.limits {
		if h.costs[i] > 0 {
			delete(m.limits[i].taken, id)
		}
	}
	switch {
	case h.state == reservation.Committed, h.state == reservation.Cancelled:
		return h.state, true
	case to == reservation.Cancelled:
		m.used -= h.charged
	case h.state == reservation.Released: // late: it is charged in full
		m.used += h.limit
	}
	h.state, h.until = to, now+h.keep
	return to, true
}

// repeat renews the slots of a hold, or takes them anew.
func (m *slotModel) repeat(now int64, id string) (denied bool) {
	h := m.holds[id]
	if h.costs == [2]int64{} {
		return false
	}
	if h.state == reservation.Open && now >= h.ends {
		m.end(now, h)
	}
	var renews [2]bool
	for i := range m.limits {
		l, cost := &m.limits[i], h.costs[i]
		if cost == 0 {
			continue
		}
		used, _ := l.sum(now)
		held := l.taken[id].ends > now
		renews[i] = held || used+cost <= l.n || l.mode == algo.Soft
		denied = denied || !renews[i] && l.mode == algo.Enforce
	}
	if denied {
		return true
	}
	last := int64(0)
	for i := range m.limits {
		if renews[i] {
			m.limits[i].taken[id] = modelSlot{h.costs[i], now + h.ttls[i]}
			last = max(last, now+h.ttls[i])
		}
	}
	switch {
	case last == 0:
	case h.state == reservation.Open:
		h.ends = max(h.ends, last)
		h.until = h.ends + reservation.UnsettledFor
	default:
		h.until = max(h.until, last+h.keep)
	}
	return false
}

const (
	quotaWindow = 1000 * 3600 * second // of the quota
	slotsKeep   = 40 * second
)

// slotRun is the engine beside the model.
type slotRun struct {
	t   *testing.T
	rnd *rand.Rand
	s   *engine.Session
	m   *slotModel
	now int64
	// keys are those of the counters, of which the last is the quota's.
	keys [3]string
	at   string // of a failure
}

func TestSlotsOfPoliciesAgainstModel(t *testing.T) {
	t.Parallel()
	histories := 10_000
	if testing.Short() {
		histories = 60
	}
	var s *engine.Session
	var now int64
	for seed := range uint64(histories) {
		rnd := rand.New(rand.NewPCG(seed, 17))
		if seed%100 == 0 {
			if s != nil {
				s.Close()
			}
			s = engine.New(engine.Config{Shards: 2, MaxBytes: 4 << 20}).NewSession()
			now = start - start%quotaWindow
		}
		r := &slotRun{t: t, rnd: rnd, s: s, now: now, at: fmt.Sprint("seed ", seed)}
		r.m = &slotModel{quota: 1 + rnd.Int64N(20), holds: map[string]*modelHold{}}
		for i := range r.m.limits {
			r.m.limits[i] = slotLimit{n: 1 + rnd.Int64N(5), ttl: (1 + rnd.Int64N(30)) * second, cost: rnd.Int64N(3), taken: map[string]modelSlot{}}
			r.m.limits[i].mode = []algo.Mode{algo.Enforce, algo.Enforce, algo.Enforce, algo.Soft, algo.Shadow}[rnd.IntN(5)]
		}
		for i := range r.keys {
			r.keys[i] = fmt.Sprintf("@p%d:%d", seed, i)
		}
		for range 30 {
			r.step()
		}
		now = r.now
	}
	s.Close()
}

func (r *slotRun) slots(i int, ttl int64) engine.Check {
	l := &r.m.limits[i]
	limit := algo.Limit{Algorithm: algo.PolicySlots, Limit: l.n, Period: l.ttl}
	if ttl != 0 {
		limit.Period = ttl
	}
	return of(r.t, r.s, r.keys[i], limit, costs(l.cost), func(c *engine.Check) { c.Mode = l.mode })
}

func (r *slotRun) quota(units int64) engine.Check {
	return of(r.t, r.s, r.keys[2], algo.Limit{Algorithm: algo.Fixed, Limit: r.m.quota, Period: quotaWindow}, costs(units))
}

// step makes one random step, and compares.
func (r *slotRun) step() {
	if r.rnd.IntN(3) == 0 {
		r.now += r.rnd.Int64N(20) * second / 2
	}
	r.s.Engine().SettleEnded(context.Background(), r.s, r.now)
	for id := range r.m.holds { // which may come to it a second late
		_, err := r.s.Settle(r.now, []byte(id), engine.Settlement{State: reservation.Released})
		require.True(r.t, err == nil || errors.Is(err, engine.ErrNoHold), "%s: %v", r.at, err)
	}
	r.m.pass(r.now)
	id := fmt.Sprint(r.at, "/", r.rnd.IntN(5))
	switch r.rnd.IntN(12) {
	case 0, 1:
		r.settle(id, reservation.Committed)
	case 2:
		r.settle(id, reservation.Cancelled)
	case 3: // an edit
		l := &r.m.limits[r.rnd.IntN(2)]
		l.n, l.cost = 1+r.rnd.Int64N(5), r.rnd.Int64N(3)
	case 4: // somebody frees a counter
		if i := r.rnd.IntN(2); r.rnd.IntN(4) == 0 {
			_, err := r.s.Delete(r.now, []byte(r.keys[i]))
			require.NoError(r.t, err, r.at)
			clear(r.m.limits[i].taken)
		}
	default:
		r.call(id)
	}
	var v modelVerdict
	r.m.left(r.now, &v)
	for i := range r.m.limits {
		require.Equal(r.t, v.left[i], remaining(r.t, r.s, r.now, r.slots(i, 0)), "%s: %s", r.at, r.keys[i])
	}
	require.Equal(r.t, v.left[2], remaining(r.t, r.s, r.now, r.quota(0)), r.at)
}

func (r *slotRun) settle(id string, to reservation.State) {
	state, there := r.m.settle(r.now, id, to)
	a, err := r.s.Settle(r.now, []byte(id), engine.Settlement{State: to})
	if !there {
		require.ErrorIs(r.t, err, engine.ErrNoHold, r.at)
		return
	}
	require.NoError(r.t, err, r.at)
	require.Equal(r.t, state, a.State, r.at)
}

// call makes a call under a name, which is a repeat if it was made before.
func (r *slotRun) call(id string) {
	if r.m.holds[id] != nil {
		denied := r.m.repeat(r.now, id)
		says, err := r.s.Renew(r.now, []byte(id), func(l *reservation.Held) engine.Present {
			i := slices.Index(r.keys[:], string(l.Key))
			return engine.Present{Limit: algo.Limit{Algorithm: algo.PolicySlots, Limit: r.m.limits[i].n, Period: 1}, Mode: r.m.limits[i].mode}
		})
		require.NoError(r.t, err, r.at)
		require.Equal(r.t, denied, says.Denied, r.at)
		return
	}
	plain, ttl, units := r.rnd.IntN(3) > 0, int64(0), r.rnd.Int64N(4)
	if !plain && r.rnd.IntN(2) == 0 {
		ttl = (1 + r.rnd.Int64N(40)) * second
	}
	checks := []engine.Check{r.slots(0, ttl), r.slots(1, ttl), r.quota(units)}
	q := engine.Reserve{Key: []byte(id), Plain: plain, TTL: cmp.Or(ttl, minute), Keep: slotsKeep, Named: true, Limits: make([]reservation.Held, len(checks))}
	for i := range q.Limits {
		q.Limits[i] = reservation.Held{Name: fmt.Sprint(i), Each: 1}
	}
	want := r.m.call(r.now, id, true, plain, ttl, units)
	out := make([]engine.Checked, len(checks))
	got, err := r.s.Reserve(r.now, checks, engine.CheckOptions{}, out, &q)
	require.NoError(r.t, err, r.at)
	require.Equal(r.t, want.ok, got.OK, r.at)
	if !got.OK {
		require.Equal(r.t, want.binding, got.Binding, r.at)
		require.Equal(r.t, want.retry, out[got.Binding].RetryAfter, r.at)
	}
	if h := r.m.holds[id]; h != nil {
		require.Equal(r.t, h.state == reservation.Open, q.Held, r.at)
	}
}
