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
	// ExpiresAfter is when the key is forgotten, unless it is Persistent.
	ExpiresAfter int64
	Persistent   bool
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
	// State is a hash of the stored state: another one is another state.
	State uint64

	// Quota tells that units are taken from the key: Used and what follows it
	// mean something.
	Quota bool
	// Facts are the raw state for people to read, Encoding is what OBJECT
	// ENCODING calls it.
	Facts    []Fact
	Encoding string
}

// Fact is a number of a key's state, or a text if Text is not empty.
type Fact struct {
	Name string
	Int  int64
	Text string
}

// fact adds a number.
func (x *Explanation) fact(name string, v int64) { x.Facts = append(x.Facts, Fact{Name: name, Int: v}) }

// Explain describes the state of key; ok is false when there is none.
func (s *Session) Explain(now int64, key []byte) (x Explanation, ok bool, err error) {
	ok, err = s.visit(now, key, func(ent shard.Entry) {
		it := s.e.limits.get(ent.Meta())
		x = Explanation{Limit: it.limit, Bytes: ent.Size(), State: s.e.table.Hash(ent.State()), Encoding: "raw"}
		if at := ent.Deadline(); at == NoExpiry {
			x.Persistent = true
		} else {
			x.ExpiresAfter = at - now
		}
		k := it.limit.Algorithm.kind()
		k.describe(&x, &it.rule, ent, now)
		if x.Quota = k.ask != nil; x.Quota {
			x.forecast(it.burst, func(cost int64) Decision { return k.ask(s, it, ent, now, cost) })
		}
	})
	return x, ok, err
}

// forecast fills in what calls would meet, from the decisions themselves.
func (x *Explanation) forecast(capacity int64, ask func(cost int64) Decision) {
	x.Capacity = capacity
	x.Remaining = max(capacity-x.Used, 0)
	if x.Used == 0 {
		return
	}
	x.ResetAfter = ask(capacity).RetryAfter
	x.NextAfter = ask(x.Remaining + 1).RetryAfter
}

// askDecision is what a decision would answer, nothing where it is an error.
func askDecision(s *Session, it *interned, ent shard.Entry, now, cost int64) Decision {
	p := plan{it: it, ent: ent, found: true, live: true}
	if err := s.evaluate(&p, load(ent), now, cost, &Options{Peek: true}); err != nil {
		return Decision{}
	}
	return p.d
}

// askSlots is what RL.ACQUIRE would answer an id without a lease. cost must be
// more than is free.
func askSlots(_ *Session, it *interned, ent shard.Entry, now, cost int64) Decision {
	return it.slotsDenied(ent.State(), clampInstant(now), -1, cost)
}

func describeBucket(x *Explanation, r *rule, ent shard.Entry, now int64) {
	st := load(ent).bucket()
	x.TAT, x.TATFrac = st.TAT, st.Frac
	x.fact("tat_ns", x.TAT)
	x.fact("tat_fraction", int64(x.TATFrac))
	used := st.used(now)
	x.Used = int64(used.cover(r.num, r.den))
	if free := r.free(used); free > 0 {
		// A fraction beyond whole units, left by a refund, is none in use.
		x.Used = r.burst - free
	}
}

func describeFixed(x *Explanation, r *rule, ent shard.Entry, now int64) {
	w := r.fixedAt(r.counts(load(ent)), now)
	x.WindowStart, x.Current, x.Previous = w.Start, w.Cur, w.Prev
	x.Used = w.Cur
	x.fact("window_start_ms", x.WindowStart/1e6)
	x.fact("current", x.Current)
}

func describeSliding(x *Explanation, r *rule, ent shard.Entry, now int64) {
	w := r.slidingAt(r.counts(load(ent)), now)
	x.WindowStart, x.Current, x.Previous = w.Start, w.Cur, w.Prev
	x.Used = r.weigh(w, now)
	x.fact("window_start_ms", x.WindowStart/1e6)
	x.fact("current", x.Current)
	x.fact("previous", x.Previous)
}

func describeLog(x *Explanation, r *rule, ent shard.Entry, now int64) {
	b := logRing(ent.State())
	expired, used := b.live(now, r.period)
	_, count := b.span()
	x.Entries, x.Used = count-expired, used
	x.fact("entries", int64(x.Entries))
}

func describeSlots(x *Explanation, _ *rule, ent shard.Entry, now int64) {
	b := leaseList(ent.State())
	expired, used := b.live(now)
	x.Entries, x.Used = b.count()-expired, used
	x.fact("leases", int64(x.Entries))
}

const (
	// embstrMax is how long a string is that Redis keeps beside its key.
	embstrMax = 44
	// factMax is how much of a string is told.
	factMax = 128
)

func describeCounter(x *Explanation, _ *rule, ent shard.Entry, _ int64) {
	text := appendText(nil, ent)
	switch {
	case ent.Words() == 1:
		x.Encoding = "int"
	case len(text) <= embstrMax:
		x.Encoding = "embstr"
	}
	x.Facts = append(x.Facts, Fact{Name: "value", Text: string(text[:min(len(text), factMax)])})
}
