package clock

import "time"

const (
	// MaxDrift bounds how much slower the leader's cluster clock runs than this
	// node counts time, as a divisor: 1/500 is 2000 ppm. Linux's NTP discipline
	// corrects a machine's frequency by up to 500 ppm, on either side. The leader
	// slews the cluster clock by up to 500 more.
	MaxDrift = 500

	// Beat is the least time between two entries of a window, and the most that
	// an idle leader lets pass between two entries.
	Beat = time.Second

	// windowBeats is how many entries, a second or more apart, make a window:
	// the best of the last two is what counts.
	windowBeats = 4

	// silence is how long after a leader's last entry the bound goes on sinking.
	// After that nobody keeps a clock any more that the bound could be ahead of.
	silence = int64(10 * time.Second)
)

// Bound is a lower bound of the clock of the term's leader, in the time of this
// node's boot. It is immutable.
//
// Each entry shows that the leader's clock was at least so much when it came.
// The best of these bounds is kept, and sinks: by the most that the leader's
// clock can have run slower than this node's since. Without that, a bound that
// was once close would stay. A leader that takes over from it would make the
// cluster's clock jump forward by the drift of the whole term, which grants
// quota. The best bound is not always the last entry's: entries that a dead
// leader had sent may come after an outage, and give a lower bound than earlier
// ones. Where a clock drifts by more than MaxDrift allows, the bound follows
// within two windows all the same.
//
// A bound of an earlier leader's clock does not count, however close: the next
// leader's clock lags that one.
type Bound struct {
	term  uint64
	best  sighting // of the last window and this one
	next  sighting // of this window
	beats int      // in this window
	beat  int64    // the last of them
	heard int64    // the last entry
	saved bool     // see Saved
}

// sighting says that the leader's clock was at least clock when this node's was
// at.
type sighting struct{ clock, at int64 }

// At is the bound at a time of this node's boot.
func (b *Bound) At(at int64) int64 { return b.of(b.best, at) }

// of returns the clock by a sighting at a time.
func (b *Bound) of(s sighting, at int64) int64 {
	sinks := max(0, min(at, b.heard+silence)-s.at)
	return s.clock + (at - s.at) - sinks/MaxDrift
}

// Term is the term of the leader by whose clock the bound goes.
func (b *Bound) Term() uint64 { return b.term }

// Saved reports whether the bound is of an earlier process on this machine, and
// nothing has been heard since.
func (b *Bound) Saved() bool { return b.saved }

// Heard returns the bound after an entry of a term, with that clock, has come
// at a time. b may be nil.
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
