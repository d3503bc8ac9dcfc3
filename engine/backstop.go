package engine

import (
	"encoding/binary"
	"hash/maphash"
	"sync"

	"github.com/headgate-io/headgate/engine/algo"
)

// backstopBytes bounds the memory of what a Backstop counts: some 200 000 keys.
const backstopBytes = 16 << 20

// Backstop answers as Empty does, and admits no more than a multiple of each
// limit: it counts what it has admitted, in memory, on an engine of its own. That
// has a bound. Where it has no room it forgets the keys that have used the least
// of theirs, and admits what it cannot count.
//
// Slots, of policies too, and counters are Empty's: nobody can tell here when a slot is free again,
// and a counter states no limit.
//
// Methods are safe for concurrent use.
type Backstop struct {
	*Empty
	seeds [2]maphash.Seed // of key

	// mu guards the fields below.
	mu      sync.Mutex
	overlay *Engine // nil while nothing is counted
	session *Session
	segs    []Segment // scratch, as the next three
	checks  []Check
	says    []algo.Decision
	checked []Checked
	counts  BackstopCounts // without what the overlay has evicted
}

// BackstopCounts are counts since the start.
type BackstopCounts struct {
	// Denied is how many calls were denied that Empty would have admitted.
	Denied uint64
	// Forgotten is how many times there was no room to count: a key was
	// forgotten, or a call admitted uncounted.
	Forgotten uint64
}

// NewBackstop returns decisions within the bounds of e, which it does not touch.
func NewBackstop(e *Engine) *Backstop {
	return &Backstop{Empty: NewEmpty(e), seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}}
}

// key names what a key of a database has on the overlay under a limit of an
// algorithm: by 128 bits of its hashes, so that who sends long keys takes no room
// of others.
func (b *Backstop) key(db uint8, a algo.Algorithm, key []byte) []byte {
	name := make([]byte, 0, 2+8*len(b.seeds))
	name = append(name, db, byte(a))
	for _, seed := range b.seeds {
		name = binary.LittleEndian.AppendUint64(name, maphash.Bytes(seed, key))
	}
	return name
}

// DecideAll is Empty.DecideAll, or with one segment Empty.Decide, while what
// it has admitted since Forget is within n times each limit: see algo.Limit.Multiple. A
// call beyond that is denied, charged to none of its limits, and told to wait until
// it is not beyond. Remaining is at most what is left. A forced call passes, and is
// counted. n is 1 or more.
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
		granted, o = 0, &algo.Options{} // what they hold
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

// count charges the overlay what Empty has granted, and returns which segment says
// what becomes of the call. mu must be held.
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

// within makes d, the decision of a full limit, what the overlay has left of it.
func within(d, overlay *algo.Decision) {
	left := min(d.Remaining, overlay.Remaining)
	if overlay.OK {
		d.Remaining = left
		return
	}
	*d = algo.Decision{Limit: d.Limit, Remaining: left, RetryAfter: overlay.RetryAfter, ResetAfter: overlay.ResetAfter}
}

// Check is Empty.Check, bounded as DecideAll is. Limits that are not enforced
// count nothing, and slots neither.
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
			b.checks[i].Cost, b.checks[i].CountAll = 0, false // what they hold
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

// bounded reports whether a limit counts what a Backstop admits: one that is
// enforced, and not of slots.
func (c *Check) bounded() bool { return c.Mode == algo.Enforce && c.Limit.it.Decides != algo.Slots }

// countCheck charges the overlay, and reports whether the call passes. mu must be
// held.
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
	b.overlay.tidyLimits() // nobody runs the engine
}

// release drops the views of the caller's keys.
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

// Counts returns what there is to tell.
func (b *Backstop) Counts() BackstopCounts {
	b.mu.Lock()
	defer b.mu.Unlock()
	c := b.counts
	if b.overlay != nil {
		c.Forgotten += b.overlay.table.Stats().Evicted
	}
	return c
}
