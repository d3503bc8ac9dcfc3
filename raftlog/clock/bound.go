package clock

import "time"

const (
	// MaxDrift bounds how much slower the leader's cluster clock may run than this node's
	// time, as a divisor: 1/500 is 2000 ppm. Linux's NTP discipline changes a machine's
	// frequency by up to 500 ppm, on both nodes. The leader also adjusts the cluster clock
	// by up to 500 ppm.
	MaxDrift = 500

	// Beat is the shortest time between two entries of a window. It is also the longest
	// time between two entries of an idle leader.
	Beat = time.Second

	// windowBeats is how many entries, at least Beat apart, make a window. The best of
	// the last two windows counts.
	windowBeats = 4

	// silence is for how long after a leader's last entry the deduction for drift still
	// grows. After that, no node keeps a clock that the bound could be ahead of.
	silence = int64(10 * time.Second)
)

// Bound is a lower bound of the clock of the term's leader, as a function of the time
// since this node's boot. It is immutable.
//
// An entry of the log contains the leader's clock. When the entry arrives, the leader's
// clock has at least that value. Bound keeps the best of these values. From then on the
// bound advances as slowly as the leader's clock can run: a little slower than this
// node's time (MaxDrift). If the bound advanced as fast as this node's time, it could
// get ahead of a leader's clock that is slower. When this node then becomes leader, it
// would move the cluster's clock forward by the difference, and limits would refill for
// time that has not passed.
//
// The last entry does not always give the best bound. After an outage, entries of a dead
// leader may arrive late, with an old clock. If a clock drifts by more than MaxDrift
// allows, the bound is right again after two windows. A window is windowBeats entries
// that are at least Beat apart.
//
// The bound of an earlier leader's clock does not count, however close it is. The next
// leader has continued from the clock that it knew, which may be earlier than this
// bound.
type Bound struct {
	term  uint64
	best  sighting // the best bound of this window and the previous window
	next  sighting // the best bound of this window
	beats int      // number of beats in this window
	beat  int64    // when the last beat was counted
	heard int64    // when the last entry came
	saved bool     // see Saved
}

// sighting says that when this node's time was at, the leader's clock was at least clock.
type sighting struct{ clock, at int64 }

// At returns the bound at a time since this node's boot.
func (b *Bound) At(at int64) int64 { return b.of(b.best, at) }

// of returns the bound of a sighting at a time.
func (b *Bound) of(s sighting, at int64) int64 {
	sinks := max(0, min(at, b.heard+silence)-s.at)
	return s.clock + (at - s.at) - sinks/MaxDrift
}

// Term returns the term of the leader whose clock is bounded.
func (b *Bound) Term() uint64 { return b.term }

// Saved reports whether the bound is from an earlier process on this machine, and no leader
// has been heard since.
func (b *Bound) Saved() bool { return b.saved }

// Heard returns the bound after an entry has arrived. The entry has a term and a clock, and
// arrived at the time at. b may be nil.
func (b *Bound) Heard(term uint64, clock, at int64) *Bound {
	s := sighting{clock, at}
	if b == nil || b.saved || term != b.term {
		return &Bound{term: term, best: s, next: s, beat: at, heard: at}
	}
	n := *b
	n.heard = max(n.heard, at)
	if clock > n.of(n.best, at) {
		n.best = s
	}
	if clock > n.of(n.next, at) {
		n.next = s
	}
	if at-n.beat >= int64(Beat) {
		n.beat = at
		n.beats++
	}
	if n.beats >= windowBeats {
		n.best, n.next, n.beats = n.next, s, 0
	}
	return &n
}
