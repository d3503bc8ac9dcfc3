package engine

import (
	"math"
	"math/big"
	"slices"

	"pgregory.net/rapid"
)

// The reference models: slow, and written from the definitions rather than
// from the code. Times are big integers in units of 2^-32 ns.

func bigInt(n int64) *big.Int { return big.NewInt(n) }

func mul(a, b *big.Int) *big.Int { return new(big.Int).Mul(a, b) }
func add(a, b *big.Int) *big.Int { return new(big.Int).Add(a, b) }
func sub(a, b *big.Int) *big.Int { return new(big.Int).Sub(a, b) }

// floorDiv and ceilDiv are for numerators of 0 or more.
func floorDiv(a, b *big.Int) *big.Int { return new(big.Int).Quo(a, b) }
func ceilDiv(a, b *big.Int) *big.Int {
	return new(big.Int).Quo(add(a, sub(b, bigInt(1))), b)
}

func lesser(a, b *big.Int) *big.Int {
	if a.Cmp(b) <= 0 {
		return a
	}
	return b
}

func positive(a *big.Int) *big.Int {
	if a.Sign() < 0 {
		return bigInt(0)
	}
	return a
}

var twoTo32 = bigInt(1 << 32)

func inFractions(ns int64) *big.Int { return mul(bigInt(ns), twoTo32) }

// modelBucket is a token or leaky limit by its definition.
type modelBucket struct {
	l        Limit
	interval *big.Rat // ns per unit
	burst    int64
}

func newModelBucket(l Limit) modelBucket {
	m := modelBucket{l: l, burst: l.Burst}
	if m.burst == 0 {
		m.burst = l.Limit
	}
	exact := big.NewRat(l.Period, l.Limit)
	switch l.Rounding {
	case Exact:
		m.interval = exact
	case Nanosecond:
		m.interval = new(big.Rat).SetInt(floorDiv(exact.Num(), exact.Denom()))
	case Microsecond:
		us := new(big.Rat).Quo(exact, big.NewRat(1000, 1))
		us.Add(us, big.NewRat(1, 2))
		whole := floorDiv(us.Num(), us.Denom())
		if whole.Sign() == 0 {
			whole = bigInt(1)
		}
		m.interval = new(big.Rat).SetInt(mul(whole, bigInt(1000)))
	}
	return m
}

// time returns floor(units * interval * 2^32).
func (m modelBucket) time(units *big.Int) *big.Int {
	return floorDiv(mul(mul(units, m.interval.Num()), twoTo32), m.interval.Denom())
}

// fits returns the largest number of units whose time is at most t, by
// bisection.
func (m modelBucket) fits(t *big.Int) *big.Int {
	low, high := bigInt(0), new(big.Int).Lsh(bigInt(1), 64)
	for sub(high, low).Cmp(bigInt(1)) > 0 {
		mid := new(big.Int).Rsh(add(low, high), 1)
		if m.time(mid).Cmp(t) <= 0 {
			low = mid
		} else {
			high = mid
		}
	}
	return low
}

func modelState(tat *big.Int) tokenState {
	ns, frac := new(big.Int).QuoRem(tat, twoTo32, new(big.Int))
	return tokenState{ns.Int64(), uint32(frac.Uint64())}
}

func modelNs(t *big.Int) int64 { return ceilDiv(t, twoTo32).Int64() }

// token is rule.token by its definition.
func (m modelBucket) token(st tokenState, now, cost int64, o Options) (next tokenState, d Decision, write bool, err error) {
	now = min(max(now, 0), maxInstant)
	tat := add(inFractions(min(st.TAT, latestInstant)), bigInt(int64(st.Frac)))
	used := positive(sub(tat, inFractions(now)))
	if st.TAT < now {
		used = bigInt(0)
	}
	capacity := m.time(bigInt(m.burst))
	debt, wait := max(o.Debt, 0), max(o.Wait, 0)
	century := inFractions(maxSpan)
	room := lesser(m.time(add(bigInt(m.burst), bigInt(debt))), century)
	reach := lesser(add(room, inFractions(wait)), century)
	if m.l.Algorithm == Leaky {
		reach = room
	}

	d.Limit = m.burst
	finish := func(used *big.Int) {
		d.Remaining = m.fits(positive(sub(capacity, used))).Int64()
		d.ResetAfter = modelNs(used)
	}
	if cost <= 0 {
		left := positive(sub(used, m.time(new(big.Int).Neg(bigInt(cost)))))
		d.OK, d.Allowed = true, cost
		if cost == 0 && m.l.Algorithm == Leaky {
			d.Delay = modelNs(used)
		}
		finish(left)
		if o.Peek || left.Cmp(used) == 0 {
			return st, d, false, nil
		}
		if left.Sign() == 0 {
			return tokenState{}, d, true, nil
		}
		return modelState(add(inFractions(now), left)), d, true, nil
	}

	units := bigInt(cost)
	if o.AtMost && !o.Force {
		there := m.fits(lesser(positive(sub(reach, used)), room))
		units = lesser(units, there)
		if units.Sign() == 0 {
			units = bigInt(1)
		}
	}
	charged := add(used, m.time(units))
	if o.Wait != 0 && m.l.Algorithm == Leaky {
		reach = lesser(room, add(m.time(units), inFractions(wait)))
	}
	if !o.Force && m.time(units).Cmp(room) > 0 {
		d.RetryAfter = Never
		finish(used)
		return st, d, false, nil
	}
	if !o.Force && charged.Cmp(reach) > 0 {
		d.RetryAfter = modelNs(sub(charged, reach))
		finish(used)
		return st, d, false, nil
	}
	if whole := floorDiv(charged, twoTo32); add(bigInt(now), whole).Cmp(bigInt(latestInstant)) > 0 {
		return st, Decision{}, false, ErrOverflow
	}
	d.OK, d.Allowed = true, units.Int64()
	finish(charged)
	if m.l.Algorithm == Leaky {
		d.Delay = modelNs(used)
	} else if !o.Force {
		d.Delay = modelNs(positive(sub(charged, room)))
	}
	if o.Peek {
		return st, d, false, nil
	}
	return modelState(add(inFractions(now), charged)), d, true, nil
}

// adopt is rule.adoptToken by its definition.
func (m modelBucket) adopt(st tokenState, old modelBucket, now int64) tokenState {
	tat := add(inFractions(st.TAT), bigInt(int64(st.Frac)))
	used := positive(sub(tat, inFractions(now)))
	if used.Sign() == 0 {
		return tokenState{}
	}
	oldCapacity := old.time(bigInt(old.burst))
	var kept *big.Int
	if m.interval.Cmp(old.interval) == 0 {
		debt := positive(sub(used, oldCapacity))
		kept = add(lesser(lesser(used, oldCapacity), m.time(bigInt(m.burst))), debt)
	} else {
		// ceil(used / interval)
		units := ceilDiv(mul(used, old.interval.Denom()), mul(old.interval.Num(), twoTo32))
		debt := positive(sub(units, bigInt(old.burst)))
		kept = m.time(add(lesser(sub(units, debt), bigInt(m.burst)), debt))
	}
	return modelState(lesser(add(inFractions(now), kept), inFractions(latestInstant)))
}

// hit is one charge in the history of a key.
type hit struct{ at, cost int64 }

// history is every unit a window or log limit ever charged, oldest first.
type history []hit

func (h history) between(from, to int64) int64 {
	n := int64(0)
	for _, x := range h {
		if x.at >= from && x.at < to {
			n += x.cost
		}
	}
	return n
}

// refund takes units from the newest hits.
func (h *history) refund(units int64) {
	for units > 0 && len(*h) > 0 {
		last := &(*h)[len(*h)-1]
		n := min(units, last.cost)
		last.cost -= n
		units -= n
		if last.cost == 0 {
			*h = (*h)[:len(*h)-1]
		}
	}
}

// modelWindow is a fixed, sliding or log limit over a whole history.
type modelWindow struct {
	l     Limit
	start int64 // of the current window
	open  bool
	hits  history
}

// roll finds the window that contains now and forgets hits that can no longer
// count, so that refunds do not reach them.
func (m *modelWindow) roll(now int64) {
	p := m.l.Period
	reach := p // how far back a hit counts
	switch {
	case m.l.Algorithm == Log:
		m.start = now - p + 1
	case m.open && now < m.start+p:
	case m.open && m.l.Algorithm == Sliding && now < m.start+2*p && m.hits.between(m.start, m.start+p) > 0:
		m.start += p
	case m.l.Align == First:
		m.start = now
	default:
		m.start = now / p * p
	}
	if m.l.Algorithm == Sliding {
		reach = 2 * p
	}
	first := m.start + p - reach
	m.hits = slices.DeleteFunc(m.hits, func(x hit) bool { return x.at < first })
	m.open = m.l.Algorithm == Log || len(m.hits) > 0
}

// used is how many units count at now.
func (m *modelWindow) used(now int64) int64 {
	p := m.l.Period
	switch m.l.Algorithm {
	case Sliding:
		before := bigInt(m.hits.between(m.start-p, m.start))
		weight := ceilDiv(mul(before, bigInt(m.start+p-now)), bigInt(p))
		return m.hits.between(m.start, m.start+p) + weight.Int64()
	default:
		return m.hits.between(m.start, math.MaxInt64)
	}
}

func (m *modelWindow) decide(now, cost int64, o Options) (d Decision) {
	m.roll(now)
	before := slices.Clone(m.hits)
	wasOpen := m.open
	used := m.used(now)
	bound := m.l.Limit + max(o.Debt, 0)
	d = Decision{OK: true, Allowed: cost, Limit: m.l.Limit}
	switch {
	case cost < 0:
		m.hits.refund(-cost)
	case cost > 0:
		if o.AtMost && !o.Force {
			d.Allowed = max(min(cost, bound-used), 0)
			d.OK = d.Allowed > 0
		} else if !o.Force && used+cost > bound {
			d.OK, d.Allowed = false, 0
		}
		if d.OK {
			m.hits = append(m.hits, hit{now, d.Allowed})
			m.open = true
		}
	}
	d.Remaining = max(m.l.Limit-m.used(now), 0)
	// When nothing counts any more.
	if len(m.hits) > 0 {
		p, last := m.l.Period, m.hits[len(m.hits)-1].at
		switch {
		case m.l.Algorithm == Log:
			d.ResetAfter = last + p - now
		case m.l.Algorithm == Sliding && last >= m.start:
			d.ResetAfter = m.start + 2*p - now
		default:
			d.ResetAfter = m.start + p - now
		}
	}
	if o.Peek {
		m.hits, m.open = before, wasOpen
	}
	m.open = m.open && len(m.hits) > 0
	return d
}

// wide draws a number from lo..hi, small, large and extreme ones alike.
func wide(t *rapid.T, name string, lo, hi int64) int64 {
	span := uint64(hi) - uint64(lo)
	bits := rapid.IntRange(0, 63).Draw(t, name+" bits")
	off := rapid.Uint64Range(0, 1<<bits).Draw(t, name)
	if span != math.MaxUint64 {
		off %= span + 1
	}
	if rapid.Bool().Draw(t, name+" from above") {
		return int64(uint64(hi) - off)
	}
	return int64(uint64(lo) + off)
}

func anyOptions(t *rapid.T, unit int64) Options {
	o := Options{
		Peek:   rapid.IntRange(0, 7).Draw(t, "peek") == 0,
		Force:  rapid.IntRange(0, 7).Draw(t, "force") == 0,
		AtMost: rapid.IntRange(0, 3).Draw(t, "atmost") == 0,
	}
	if rapid.IntRange(0, 3).Draw(t, "with wait") == 0 {
		o.Wait = wide(t, "wait", NoWait, unit)
	}
	if rapid.IntRange(0, 3).Draw(t, "with debt") == 0 {
		o.Debt = wide(t, "debt", 0, 100)
	}
	return o
}
