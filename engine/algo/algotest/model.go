// Package algotest has models of the algorithms for the tests of engine/algo and engine.
// They are slow, and written from the definitions rather than from the code. Times are
// big integers in units of 2^-32 ns.
package algotest

import (
	"math"
	"math/big"
	"slices"

	"pgregory.net/rapid"

	"github.com/headgate-io/headgate/engine/algo"
)

// Int, Mul, Add and Sub are functions for the methods of big.Int.
func Int(n int64) *big.Int { return big.NewInt(n) }

func Mul(a, b *big.Int) *big.Int { return new(big.Int).Mul(a, b) }
func Add(a, b *big.Int) *big.Int { return new(big.Int).Add(a, b) }
func Sub(a, b *big.Int) *big.Int { return new(big.Int).Sub(a, b) }

// FloorDiv and CeilDiv are for numerators of 0 or more.
func FloorDiv(a, b *big.Int) *big.Int { return new(big.Int).Quo(a, b) }
func CeilDiv(a, b *big.Int) *big.Int {
	return new(big.Int).Quo(Add(a, Sub(b, Int(1))), b)
}

// Lesser returns the lesser number.
func Lesser(a, b *big.Int) *big.Int {
	if a.Cmp(b) <= 0 {
		return a
	}
	return b
}

// Positive returns a, or 0 if a is negative.
func Positive(a *big.Int) *big.Int {
	if a.Sign() < 0 {
		return Int(0)
	}
	return a
}

// TwoTo32 is a ns in units of 2^-32 ns.
var TwoTo32 = Int(1 << 32)

// InFractions returns ns in units of 2^-32 ns.
func InFractions(ns int64) *big.Int { return Mul(Int(ns), TwoTo32) }

// Bucket models a token or leaky limit by its definition.
type Bucket struct {
	Limit    algo.Limit
	Interval *big.Rat // ns per unit
	Burst    int64
}

// NewBucket returns the model of a limit.
func NewBucket(l algo.Limit) Bucket {
	m := Bucket{Limit: l, Burst: l.Burst}
	if m.Burst == 0 {
		m.Burst = l.Limit
	}
	exact := big.NewRat(l.Period, l.Limit)
	switch l.Rounding {
	case algo.Exact:
		m.Interval = exact
	case algo.Nanosecond:
		m.Interval = new(big.Rat).SetInt(FloorDiv(exact.Num(), exact.Denom()))
	case algo.Microsecond:
		us := new(big.Rat).Quo(exact, big.NewRat(1000, 1))
		us.Add(us, big.NewRat(1, 2))
		whole := FloorDiv(us.Num(), us.Denom())
		if whole.Sign() == 0 {
			whole = Int(1)
		}
		m.Interval = new(big.Rat).SetInt(Mul(whole, Int(1000)))
	}
	return m
}

// Time returns floor(units * interval * 2^32).
func (m Bucket) Time(units *big.Int) *big.Int {
	return FloorDiv(Mul(Mul(units, m.Interval.Num()), TwoTo32), m.Interval.Denom())
}

// Fits returns the largest number of units whose time is at most t, by bisection.
func (m Bucket) Fits(t *big.Int) *big.Int {
	low, high := Int(0), new(big.Int).Lsh(Int(1), 64)
	for Sub(high, low).Cmp(Int(1)) > 0 {
		mid := new(big.Int).Rsh(Add(low, high), 1)
		if m.Time(mid).Cmp(t) <= 0 {
			low = mid
		} else {
			high = mid
		}
	}
	return low
}

// StateAt returns the state of a bucket whose TAT is in units of 2^-32 ns.
func StateAt(tat *big.Int) algo.State {
	ns, frac := new(big.Int).QuoRem(tat, TwoTo32, new(big.Int))
	return algo.State{Deadline: ns.Int64(), First: frac.Uint64()}
}

// InNS converts units of 2^-32 ns to whole ns, rounded up.
func InNS(t *big.Int) int64 { return CeilDiv(t, TwoTo32).Int64() }

// Decide decides by definition.
func (m Bucket) Decide(st algo.State, now, cost int64, o algo.Options) (next algo.State, d algo.Decision, write bool, err error) {
	now = min(max(now, 0), MaxInstant)
	tat := Add(InFractions(min(st.Deadline, LatestInstant)), Int(int64(st.First)))
	used := Positive(Sub(tat, InFractions(now)))
	if st.Deadline < now {
		used = Int(0)
	}
	capacity := m.Time(Int(m.Burst))
	debt, wait := max(o.Debt, 0), max(o.Wait, 0)
	century := InFractions(algo.MaxSpan)
	room := Lesser(m.Time(Add(Int(m.Burst), Int(debt))), century)
	reach := Lesser(Add(room, InFractions(wait)), century)
	if m.Limit.Algorithm == algo.Leaky {
		reach = room
	}

	d.Limit = m.Burst
	finish := func(used *big.Int) {
		d.Remaining = m.Fits(Positive(Sub(capacity, used))).Int64()
		d.ResetAfter = InNS(used)
	}
	if cost <= 0 {
		left := Positive(Sub(used, m.Time(new(big.Int).Neg(Int(cost)))))
		d.OK, d.Allowed = true, cost
		if cost == 0 && m.Limit.Algorithm == algo.Leaky {
			d.Delay = InNS(used)
		}
		finish(left)
		if o.Peek || left.Cmp(used) == 0 {
			return st, d, false, nil
		}
		if left.Sign() == 0 {
			return algo.State{}, d, true, nil
		}
		return StateAt(Add(InFractions(now), left)), d, true, nil
	}

	units := Int(cost)
	if o.AtMost && !o.Force {
		there := m.Fits(Lesser(Positive(Sub(reach, used)), room))
		units = Lesser(units, there)
		if units.Sign() == 0 {
			units = Int(1)
		}
	}
	charged := Add(used, m.Time(units))
	if o.Wait != 0 && m.Limit.Algorithm == algo.Leaky {
		reach = Lesser(room, Add(m.Time(units), InFractions(wait)))
	}
	if !o.Force && m.Time(units).Cmp(room) > 0 {
		d.RetryAfter = algo.Never
		finish(used)
		return st, d, false, nil
	}
	if !o.Force && charged.Cmp(reach) > 0 {
		d.RetryAfter = InNS(Sub(charged, reach))
		finish(used)
		return st, d, false, nil
	}
	if whole := FloorDiv(charged, TwoTo32); Add(Int(now), whole).Cmp(Int(LatestInstant)) > 0 {
		return st, algo.Decision{}, false, algo.ErrOverflow
	}
	d.OK, d.Allowed = true, units.Int64()
	finish(charged)
	if m.Limit.Algorithm == algo.Leaky {
		d.Delay = InNS(used)
	} else if !o.Force {
		d.Delay = InNS(Positive(Sub(charged, room)))
	}
	if o.Peek {
		return st, d, false, nil
	}
	return StateAt(Add(InFractions(now), charged)), d, true, nil
}

// Adopt is Rule.Adopt by its definition.
func (m Bucket) Adopt(st algo.State, old Bucket, now int64) algo.State {
	tat := Add(InFractions(st.Deadline), Int(int64(st.First)))
	used := Positive(Sub(tat, InFractions(now)))
	if used.Sign() == 0 {
		return algo.State{}
	}
	oldCapacity := old.Time(Int(old.Burst))
	var kept *big.Int
	if m.Interval.Cmp(old.Interval) == 0 {
		debt := Positive(Sub(used, oldCapacity))
		kept = Add(Lesser(Lesser(used, oldCapacity), m.Time(Int(m.Burst))), debt)
	} else {
		// ceil(used / interval)
		units := CeilDiv(Mul(used, old.Interval.Denom()), Mul(old.Interval.Num(), TwoTo32))
		debt := Positive(Sub(units, Int(old.Burst)))
		kept = m.Time(Add(Lesser(Sub(units, debt), Int(m.Burst)), debt))
	}
	return StateAt(Lesser(Add(InFractions(now), kept), InFractions(LatestInstant)))
}

// MaxInstant is the last time of the clock for decisions, and LatestInstant bounds every
// time in a state.
const (
	MaxInstant    = math.MaxInt64 / 2
	LatestInstant = MaxInstant + algo.MaxSpan
)

// Hit is one charge in the history of a key.
type Hit struct{ At, Cost int64 }

// History is every unit a window or log limit ever charged, oldest first.
type History []Hit

// Between returns the units charged from one time to before another.
func (h History) Between(from, to int64) int64 {
	n := int64(0)
	for _, x := range h {
		if x.At >= from && x.At < to {
			n += x.Cost
		}
	}
	return n
}

// Refund takes units from the newest hits.
func (h *History) Refund(units int64) {
	for units > 0 && len(*h) > 0 {
		last := &(*h)[len(*h)-1]
		n := min(units, last.Cost)
		last.Cost -= n
		units -= n
		if last.Cost == 0 {
			*h = (*h)[:len(*h)-1]
		}
	}
}

// Window models a fixed, sliding or log limit over a whole history.
type Window struct {
	Limit algo.Limit
	Start int64 // of the current window
	Open  bool
	Hits  History
}

// Roll finds the window that contains now, and forgets hits that can no longer count:
// refunds must not reach them.
func (m *Window) Roll(now int64) {
	p := m.Limit.Period
	reach := p // how far back a hit counts
	switch {
	case m.Limit.Algorithm == algo.Log:
		m.Start = now - p + 1
	case m.Open && now < m.Start+p:
	case m.Open && m.Limit.Algorithm == algo.Sliding && now < m.Start+2*p && m.Hits.Between(m.Start, m.Start+p) > 0:
		m.Start += p
	case m.Limit.Align == algo.First:
		m.Start = now
	default:
		m.Start = now / p * p
	}
	if m.Limit.Algorithm == algo.Sliding {
		reach = 2 * p
	}
	first := m.Start + p - reach
	m.Hits = slices.DeleteFunc(m.Hits, func(x Hit) bool { return x.At < first })
	m.Open = m.Limit.Algorithm == algo.Log || len(m.Hits) > 0
}

// Used returns how many units count at now.
func (m *Window) Used(now int64) int64 {
	p := m.Limit.Period
	switch m.Limit.Algorithm {
	case algo.Sliding:
		before := Int(m.Hits.Between(m.Start-p, m.Start))
		weight := CeilDiv(Mul(before, Int(m.Start+p-now)), Int(p))
		return m.Hits.Between(m.Start, m.Start+p) + weight.Int64()
	default:
		return m.Hits.Between(m.Start, math.MaxInt64)
	}
}

// Decide answers a call, and charges it if it passes. It does not fill in RetryAfter.
func (m *Window) Decide(now, cost int64, o algo.Options) (d algo.Decision) {
	m.Roll(now)
	before := slices.Clone(m.Hits)
	wasOpen := m.Open
	used := m.Used(now)
	bound := m.Limit.Limit + max(o.Debt, 0)
	d = algo.Decision{OK: true, Allowed: cost, Limit: m.Limit.Limit}
	switch {
	case cost < 0:
		m.Hits.Refund(-cost)
	case cost > 0:
		if o.AtMost && !o.Force {
			d.Allowed = max(min(cost, bound-used), 0)
			d.OK = d.Allowed > 0
		} else if !o.Force && used+cost > bound {
			d.OK, d.Allowed = false, 0
		}
		if d.OK {
			m.Hits = append(m.Hits, Hit{now, d.Allowed})
			m.Open = true
		}
	}
	d.Remaining = max(m.Limit.Limit-m.Used(now), 0)
	// The time when nothing counts any more.
	if len(m.Hits) > 0 {
		p, last := m.Limit.Period, m.Hits[len(m.Hits)-1].At
		switch {
		case m.Limit.Algorithm == algo.Log:
			d.ResetAfter = last + p - now
		case m.Limit.Algorithm == algo.Sliding && last >= m.Start:
			d.ResetAfter = m.Start + 2*p - now
		default:
			d.ResetAfter = m.Start + p - now
		}
	}
	if o.Peek {
		m.Hits, m.Open = before, wasOpen
	}
	m.Open = m.Open && len(m.Hits) > 0
	return d
}

// Wide draws a number from lo..hi, with small, large and extreme ones.
func Wide(t *rapid.T, name string, lo, hi int64) int64 {
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

// AnyOptions draws options, with waits around a unit of time.
func AnyOptions(t *rapid.T, unit int64) algo.Options {
	o := algo.Options{
		Peek:   rapid.IntRange(0, 7).Draw(t, "peek") == 0,
		Force:  rapid.IntRange(0, 7).Draw(t, "force") == 0,
		AtMost: rapid.IntRange(0, 3).Draw(t, "atmost") == 0,
	}
	if rapid.IntRange(0, 3).Draw(t, "with wait") == 0 {
		o.Wait = Wide(t, "wait", algo.NoWait, unit)
	}
	if rapid.IntRange(0, 3).Draw(t, "with debt") == 0 {
		o.Debt = Wide(t, "debt", 0, 100)
	}
	return o
}
