package engine

import (
	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/engine/effects"
	"github.com/headgate-io/headgate/engine/packed"
	"github.com/headgate-io/headgate/shard"
)

// Explanation is the answer of RL.EXPLAIN for a key. Times are in ns.
type Explanation struct {
	// Limit is the limit under which the key was last charged.
	Limit algo.Limit
	// Usage is the state in a form for people. A counter has no units in use.
	algo.Usage
	// Capacity is the size of a full limit.
	Capacity, Remaining int64
	// NextAfter is the wait until one unit more than Remaining is available, or 0 if all
	// units are available. ResetAfter is the wait until all units are available.
	NextAfter, ResetAfter int64
	// ExpiresAfter is the wait until the key is forgotten, unless it is Persistent.
	ExpiresAfter int64
	Persistent   bool
	// Out is how many units are out as leases, and Holders is the number of their blocks.
	Out, Holders int64
	// Bytes is the accounted memory of the key.
	Bytes int

	// State is a hash of the stored state: different hashes mean different states.
	State uint64

	// Quota is set if units are taken from the key. If it is not set, Used, Capacity and
	// the fields after Capacity have no meaning.
	Quota bool
	// Encoding is the name of the value's encoding in OBJECT ENCODING.
	Encoding string
}

// Explain describes the state of key. ok is false if there is none.
func (s *Session) Explain(now int64, key []byte) (x Explanation, ok bool, err error) {
	ok, err = s.visit(now, key, func(ent shard.Entry) {
		it := s.e.limits.get(ent.Meta())
		x = Explanation{Limit: it.Limit, Bytes: ent.Size(), State: s.e.table.Hash(ent.State()), Encoding: "raw"}
		if at := ent.Deadline(); at == NoExpiry {
			x.Persistent = true
		} else {
			x.ExpiresAfter = at - now
		}
		if x.Quota = it.Limit.Algorithm.HasQuota(); x.Quota {
			st := load(ent)
			if it.Limit.Leased {
				out := s.Leases().outstanding(s.e.table.At(s.hash(key)), s.hash(key), key, now)
				st = out.Plain(&it.Rule, ent.State(), now)
				x.Out, x.Holders = out.Sum(now)
				x.Limit.Leased = false
			}
			x.Usage = it.Describe(st, ent.State(), now)
			x.forecast(it.Burst, func(cost int64) algo.Decision { return forecastOf(s, it, ent, st, now, cost) })
			if x.Holders > 0 {
				x.Fact("out", x.Out)
				x.Fact("holders", x.Holders)
			}
		} else {
			traitsOf(it.Limit.Algorithm).describe(&x, ent)
		}
	})
	return x, ok, err
}

// forecast fills in what calls would get, by asking for decisions.
func (x *Explanation) forecast(capacity int64, ask func(cost int64) algo.Decision) {
	x.Capacity = capacity
	x.Remaining = max(capacity-x.Used, 0)
	if x.Used == 0 {
		return
	}
	x.ResetAfter = ask(capacity).RetryAfter
	x.NextAfter = ask(x.Remaining + 1).RetryAfter
}

// forecastOf returns the decision of a call, or the zero value if it is an error.
func forecastOf(s *Session, it *interned, ent shard.Entry, st algo.State, now, cost int64) algo.Decision {
	p := plan{it: it, ent: ent, found: true, live: true}
	if err := s.evaluate(&p, st, now, cost, &algo.Options{Peek: true}); err != nil {
		return algo.Decision{}
	}
	return p.d
}

const (
	// embstrMax is the length up to which Redis keeps a string beside its key.
	embstrMax = 44
	// factMax is how many bytes of a string are shown.
	factMax = 128
)

func describeCounter(x *Explanation, ent shard.Entry) {
	text := appendText(nil, ent)
	switch {
	case ent.Words() == 1:
		x.Encoding = "int"
	case len(text) <= embstrMax:
		x.Encoding = "embstr"
	}
	x.Facts = append(x.Facts, algo.Fact{Name: "value", Text: string(text[:min(len(text), factMax)])})
}

func describeCollection(x *Explanation, ent shard.Entry) {
	value := effects.Collection(ent.State())
	x.Entries = packed.Len(value)
	x.Fact("entries", int64(x.Entries))
	x.Fact("bytes", int64(len(value)))
	x.Encoding = packed.Encoding(value)
}
