package engine

import (
	"encoding/binary"
	"hash/maphash"
	"sync"

	"github.com/headgate-io/headgate/engine/algo"
)

// backstopBytes bounds the memory in which a Backstop counts: some 200 000 keys.
const backstopBytes = 16 << 20

// Backstop decides calls as if limits were unused, as Empty does, but admits at most a
// multiple of each limit. It counts the admitted calls in an engine of its own, the
// overlay, whose memory is bounded. If the overlay is full, it forgets the keys that
// have used the smallest part of their limits. If a call cannot be counted, Backstop
// admits it.
//
// Backstop does not bound counters such as those of INCR, because counters have no
// limit. It does not bound slots (places of a limit of concurrent calls) either. Only a
// leader can release a slot. So in the overlay a slot would stay taken for its whole
// time to live, and all later callers would be denied.
//
// In the overlay, a limit may have another algorithm. If n is the multiple:
//
//   - A window stays a window, and admits n times its limit. A bucket could admit 2n
//     times the limit in one window, because it may be full at the start and refills
//     until the end.
//   - A leaky bucket becomes a token bucket, without the option Wait. A queue in the
//     overlay would delay or deny calls that are far below n times the limit.
//   - A log becomes a bucket whose capacity is half of n times the limit. The bucket
//     refills once in a period. So no period admits more than n times the limit, and a
//     key takes one word. A log would take 16 bytes per call: with n = 10, a hundred
//     callers with a limit of 1000 would fill the overlay.
//   - With n = 1 a log stays a log, because a call that costs the whole limit must fit.
//
// In the overlay, each key has a name of 128 bits: two hashes of the real key, made with
// two random seeds of this process. SHA-256 would take 30 µs for a key of 64 KiB, and
// one call can have 32 limits, each with a key.
//
// If a flood of new keys fills the overlay, it forgets callers that are far from their
// bound, and keeps callers that are at their bound. If the overlay instead stopped
// counting new keys, the flood would pass.
//
// The owner drops the Backstop when there is a leader again and the last call was a
// minute ago. If the owner dropped it at once, callers could use the whole bound again
// at each loss of the leader.
//
// Methods are safe for concurrent use.
type Backstop struct {
	*Empty
	seeds [2]maphash.Seed // of key

	// mu guards the fields below.
	mu      sync.Mutex
	overlay *Engine // nil while nothing is counted
	session *Session
	segs    []Segment // scratch, as are the next three
	checks  []Check
	says    []algo.Decision
	checked []Checked
	counts  BackstopCounts // without the overlay's evictions
}

// BackstopCounts counts since the start of the node.
type BackstopCounts struct {
	// Denied is the number of calls that Empty would have admitted.
	Denied uint64
	// Forgotten counts how often the overlay had no room: a key was forgotten, or a call
	// was admitted without being counted.
	Forgotten uint64
}

// NewBackstop returns a Backstop with the bounds of e, which it does not change.
func NewBackstop(e *Engine) *Backstop {
	return &Backstop{Empty: NewEmpty(e), seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}}
}

// key returns the overlay's name for a key of a database under a limit of an algorithm.
// The name has two hashes of the key, 128 bits together, so a long key takes no more room.
func (b *Backstop) key(db uint8, a algo.Algorithm, key []byte) []byte {
	name := make([]byte, 0, 2+8*len(b.seeds))
	name = append(name, db, byte(a))
	for _, seed := range b.seeds {
		name = binary.LittleEndian.AppendUint64(name, maphash.Bytes(seed, key))
	}
	return name
}

// DecideAll is Empty.DecideAll, or with one segment Empty.Decide, bounded by n times each
// limit: see algo.Limit.Multiple. It denies a call that would exceed this bound, counted
// since Forget. A denied call is charged to no limit, and its RetryAfter says when the
// call would fit. Remaining is at most what is left of n times the limit. A forced call
// passes, and is counted. n is 1 or more.
func (b *Backstop) DecideAll(now, n int64, segs []Segment, o *algo.Options, out []algo.Decision) (binding int, err error) {
	binding, err = b.Empty.DecideAll(now, segs, o, out)
	if err != nil || !out[binding].OK {
		return binding, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	defer b.release()
	at, err := b.count(now, n, segs, o, out)
	if err != nil {
		b.counts.Forgotten++
		return binding, nil
	}
	passed, granted := b.says[at].OK, b.says[0].Allowed
	if !passed {
		if !o.Peek {
			b.counts.Denied++
		}
		granted, o = 0, &algo.Options{} // a cost of 0 reports what they hold
	}
	if !passed || o.AtMost && granted < out[0].Allowed {
		for i := range segs {
			b.segs[i] = Segment{segs[i].Key, segs[i].Limit, granted}
		}
		if _, err := b.Empty.DecideAll(now, b.segs, o, out); err != nil {
			return 0, err
		}
	}
	for i := range segs {
		within(&out[i], &b.says[i])
	}
	return bind(out[:len(segs)]), nil
}

// count charges the overlay with what Empty has granted, and returns the segment to
// report for the call. mu must be held.
func (b *Backstop) count(now, n int64, segs []Segment, o *algo.Options, granted []algo.Decision) (binding int, err error) {
	b.begin()
	b.segs = b.segs[:0]
	for i := range segs {
		l := segs[i].Limit.Multiple(n)
		b.segs = append(b.segs, Segment{b.key(segs[i].Limit.DB, l.Algorithm, segs[i].Key), l, granted[i].Allowed})
	}
	if cap(b.says) < MaxSegments {
		b.says = make([]algo.Decision, MaxSegments)
	}
	b.says = b.says[:len(segs)]
	own := algo.Options{Peek: o.Peek, Force: o.Force, AtMost: o.AtMost, Debt: o.Debt}
	return b.session.DecideAll(now, b.segs, &own, b.says)
}

// within reduces d, the decision of a full limit, to what is left on the overlay.
func within(d, overlay *algo.Decision) {
	left := min(d.Remaining, overlay.Remaining)
	if overlay.OK {
		d.Remaining = left
		return
	}
	*d = algo.Decision{Limit: d.Limit, Remaining: left, RetryAfter: overlay.RetryAfter, ResetAfter: overlay.ResetAfter}
}

// Check is Empty.Check, bounded as in DecideAll. It does not count slots or limits that
// are not enforced.
func (b *Backstop) Check(now, n int64, checks []Check, o CheckOptions, out []Checked) (Verdict, error) {
	v, err := b.Empty.Check(now, checks, o, out)
	if err != nil || !v.OK || len(checks) == 0 {
		return v, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	defer b.release()
	passed, err := b.countCheck(now, n, checks, o)
	if err != nil {
		b.counts.Forgotten++
		return v, nil
	}
	if !passed {
		if !o.Peek {
			b.counts.Denied++
		}
		for i := range checks {
			b.checks[i] = checks[i]
			b.checks[i].Cost, b.checks[i].CountAll = 0, false // a cost of 0 reports what they hold
		}
		if _, err := b.Empty.Check(now, b.checks, o, out); err != nil {
			return Verdict{}, err
		}
	}
	for i := range checks {
		if checks[i].bounded() {
			within(&out[i].Decision, &b.checked[i].Decision)
		}
	}
	v = Verdict{OK: passed, Binding: -1}
	v.bind(checks, out)
	return v, nil
}

// bounded reports whether a Backstop counts this limit: it is enforced and has no slots.
func (c *Check) bounded() bool { return c.Mode == algo.Enforce && c.Limit.it.Decides != algo.Slots }

// countCheck charges the overlay, and reports whether the call passes. mu must be held.
func (b *Backstop) countCheck(now, n int64, checks []Check, o CheckOptions) (passed bool, err error) {
	b.begin()
	b.checks = b.checks[:0]
	for i := range checks {
		c := &checks[i]
		if !c.bounded() {
			b.checks = append(b.checks, Check{Mode: algo.Off})
			continue
		}
		l := c.Limit.Limit().Multiple(n)
		ready, err := b.session.Ready(l)
		if err != nil {
			return false, err
		}
		key := b.key(0, l.Algorithm, c.Key)
		b.checks = append(b.checks, Check{Key: key, Hash: b.overlay.table.Hash(key), Limit: ready, Cost: c.Cost, Debt: c.Debt, Window: b.of.windowOf(now, c)})
	}
	if cap(b.checked) < MaxChecks {
		b.checked = make([]Checked, MaxChecks)
	}
	b.checked = b.checked[:len(checks)]
	v, err := b.session.Check(now, b.checks, CheckOptions{Peek: o.Peek}, b.checked)
	return v.OK, err
}

// begin makes the overlay, if there is none. mu must be held.
func (b *Backstop) begin() {
	if b.overlay == nil {
		b.overlay = New(Config{Shards: 16, MaxBytes: backstopBytes, Evict: true, LogMaxEntries: b.of.logMaxEntries, TopK: 1})
		b.session = b.overlay.NewSession()
	}
	b.overlay.tidyLimits() // the overlay has no Run
}

// release drops the references to the caller's keys.
func (b *Backstop) release() {
	clear(b.segs)
	clear(b.checks)
}

// Forget forgets what was counted, and gives back its memory.
func (b *Backstop) Forget() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.overlay != nil {
		b.counts.Forgotten += b.overlay.table.Stats().Evicted
		b.overlay, b.session = nil, nil
	}
}

// Counts returns the counts since the start.
func (b *Backstop) Counts() BackstopCounts {
	b.mu.Lock()
	defer b.mu.Unlock()
	c := b.counts
	if b.overlay != nil {
		c.Forgotten += b.overlay.table.Stats().Evicted
	}
	return c
}
