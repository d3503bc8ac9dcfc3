package engine

import "github.com/headgate-io/headgate/shard"

// Explanation is what RL.EXPLAIN tells about a key. Times are ns.
type Explanation struct {
	// Limit is the limit that the key was last charged under.
	Limit Limit
	// Units in use, and what a full limit holds. Used is above Capacity for
	// a debt. A counter has neither.
	Used, Capacity, Remaining int64
	// NextAfter is when one more unit than Remaining will be there, ResetAfter
	// when all will be; 0 for what is there already.
	NextAfter, ResetAfter int64
	// ExpiresAfter is when the key is forgotten; 0 for a counter without TTL.
	ExpiresAfter int64
	// Bytes is the accounted memory of the key.
	Bytes int

	// TAT is the theoretical arrival time of a token or leaky bucket, Unix
	// ns, with its binary fraction.
	TAT     int64
	TATFrac uint32
	// WindowStart, Unix ns, and the counts of the current and the previous
	// window of fixed and sliding.
	WindowStart       int64
	Current, Previous int64
	// Entries is how many pairs a log or leases a concurrency limit holds.
	Entries int
	// Value is a counter's.
	Value Number
}

// Explain describes the state of key; ok is false when there is none.
func (s *Session) Explain(now int64, key []byte) (x Explanation, ok bool) {
	ok = s.visit(now, key, func(_ *shard.Shard, ent shard.Entry) {
		it := s.e.limits.get(ent.Meta())
		x = Explanation{Limit: it.limit, Bytes: ent.Size()}
		if at := ent.Deadline(); at != noExpiry {
			x.ExpiresAfter = at - now
		}
		x.describe(it, ent, now)
		if it.limit.Algorithm != Counter {
			x.forecast(s, it, ent, now)
		}
	})
	return x, ok
}

// describe fills in the raw state.
func (x *Explanation) describe(it *interned, ent shard.Entry, now int64) {
	switch it.limit.Algorithm {
	case Token, Leaky:
		x.TAT, x.TATFrac = ent.Deadline(), uint32(ent.Word(0))
		used := tokenState{TAT: x.TAT, Frac: x.TATFrac}.used(now)
		x.Used = int64(used.cover(it.num, it.den))
	case Fixed, Sliding:
		w := loadWindow(&it.rule, ent)
		if it.limit.Algorithm == Fixed {
			w = it.fixedAt(w, now)
			x.Used = w.Cur
		} else {
			w = it.slidingAt(w, now)
			x.Used = it.weigh(w, now)
		}
		x.WindowStart, x.Current, x.Previous = w.Start, w.Cur, w.Prev
	case Log:
		b := logRing(ent.State())
		expired, used := b.live(now, it.period)
		_, count := b.span()
		x.Entries, x.Used = count-expired, used
	case Slots:
		b := leaseList(ent.State())
		expired, used := b.live(now)
		x.Entries, x.Used = b.count()-expired, used
	case Counter:
		x.Value = loadNumber(ent.State())
	}
}

// forecast fills in what calls would meet, from the decisions themselves.
func (x *Explanation) forecast(s *Session, it *interned, ent shard.Entry, now int64) {
	x.Capacity = it.burst
	x.Remaining = max(it.burst-x.Used, 0)
	if x.Used == 0 {
		return
	}
	look := func(cost int64) Decision {
		if it.limit.Algorithm == Slots {
			return it.slotsDenied(ent.State(), clampInstant(now), -1, cost)
		}
		p := plan{it: it, ent: ent, found: true, live: true}
		if err := s.evaluate(&p, it, now, cost, &Options{Peek: true}); err != nil {
			return Decision{}
		}
		return p.d
	}
	x.ResetAfter = look(it.burst).RetryAfter
	x.NextAfter = look(x.Remaining + 1).RetryAfter
}
