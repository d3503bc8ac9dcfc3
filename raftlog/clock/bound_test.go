package clock

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// ppm is how far d is off after it by a clock that is wrong by so many parts in
// a million.
func ppm(d time.Duration, parts int64) int64 { return int64(d) * parts / 1_000_000 }

// A leader's clock may run slower than a follower's for ever: the follower that
// takes over gains none of it.
func TestTheBoundSinksWithTheLeadersClock(t *testing.T) {
	for name, c := range map[string]struct {
		term  time.Duration
		slow  int64         // of the leader's clock, ppm
		bound time.Duration // by which the next leader may be behind
	}{
		"a second slewed":       {2000 * time.Second, 500, 20 * time.Millisecond},
		"thirty days at 20 ppm": {30 * 24 * time.Hour, 20, 20 * time.Millisecond},
		"an hour at the worst":  {time.Hour, 1500, 20 * time.Millisecond},
		"fast, for a day":       {24 * time.Hour, -1500, 50 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			var b *Bound
			leader := func(at time.Duration) int64 { return int64(at) - ppm(at, c.slow) }
			for at := time.Duration(0); at < c.term; at += time.Second {
				b = b.Heard(1, leader(at), int64(at)) // an entry that has not travelled at all
			}
			over := c.term + 500*time.Millisecond
			next := b.At(int64(over))
			require.LessOrEqual(t, next, leader(over))
			require.GreaterOrEqual(t, next, leader(over)-int64(c.bound))
		})
	}
}

// Where a clock is slewed by more than any bound allows for, as chrony may do,
// a change of leader gains at most the drift of two windows.
func TestTheBoundFollowsAWildClock(t *testing.T) {
	const slow = 83_333 // ppm, chrony's maxslewrate
	var b *Bound
	leader := func(at time.Duration) int64 { return int64(at) - ppm(at, slow) }
	over := time.Hour
	for at := time.Duration(0); at <= over; at += time.Second {
		b = b.Heard(1, leader(at), int64(at))
	}
	require.LessOrEqual(t, b.At(int64(over)), leader(over)+ppm(2*windowBeats*time.Second, slow))
}

// simulated is one node: its own clock, in the time of its boot, and what it
// knows of the leader's.
type simulated struct {
	rate  int64 // ppm that its clock is fast
	start int64
	bound *Bound
	clock int64 // highest seen
}

func (n *simulated) at(real time.Duration) int64 { return n.start + int64(real) + ppm(real, n.rate) }

// sight is an entry as a node hears it.
type sight struct{ sent, came time.Duration }

// Machines' clocks run up to 500 ppm wrong either way, and a leader slews by
// 500 more. Entries travel for any time and come out of turn. Leaders change,
// and some lead without being heard. A node that takes over is not ahead of the
// clock of the last leader that was heard, unless nobody has kept that clock
// for longer than silence. It is behind that clock by at most the way of its
// last entry, and 3500 ppm of the time since.
func TestTheClockNeverJumpsForward(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nodes := make([]*simulated, 3)
		for i := range nodes {
			nodes[i] = &simulated{
				rate:  rapid.Int64Range(-500, 500).Draw(t, "rate"),
				start: rapid.Int64Range(1, int64(time.Hour)).Draw(t, "boot"),
			}
		}
		ways := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "ways"), 0))
		var real time.Duration
		base := int64(1_000_000 * time.Second) // the leader's clock as it begins
		leader := 0
		heard := func(time.Duration) int64 { return base }
		last := make([]sight, len(nodes))
		for term := uint64(1); term < 8; term++ {
			from, began := base, nodes[leader].at(real)
			lead, slew := nodes[leader], rapid.Int64Range(-500, 500).Draw(t, "slew")
			clock := func(real time.Duration) int64 {
				own := lead.at(real) - began
				return from + own + ppm(time.Duration(own), slew)
			}
			entries := rapid.IntRange(0, 400).Draw(t, "entries")
			if term == 1 {
				entries++
			}
			slowest := rapid.SampledFrom([]time.Duration{1, time.Millisecond, 50 * time.Millisecond, 4 * time.Second}).Draw(t, "slowest")
			gap := time.Duration(rapid.Int64Range(1, int64(time.Second)).Draw(t, "gap"))
			for range entries {
				heard = clock
				for i, n := range nodes {
					way := time.Duration(0)
					if i != leader {
						way = time.Duration(ways.Int64N(int64(slowest)))
					}
					n.clock = max(n.clock, clock(real))
					n.bound = n.bound.Heard(term, n.clock, n.at(real+way))
					last[i] = sight{real, real + way}
				}
				real += gap
			}
			real += slowest + time.Duration(rapid.Int64Range(0, int64(20*time.Second)).Draw(t, "outage"))
			leader = rapid.IntRange(0, len(nodes)-1).Draw(t, "next")
			n, l := nodes[leader], last[leader]
			base = max(n.clock, n.bound.At(n.at(real)))

			const rounding = 10 // ns
			unkept := max(0, real-l.sent-time.Duration(silence))
			ahead := base - heard(real)
			require.LessOrEqual(t, ahead, rounding+ppm(unkept, 1600), "term %d jumps forward", term)
			behind := int64(l.came-l.sent) + ppm(real-l.sent, 3600)
			require.LessOrEqual(t, -ahead, rounding+behind, "term %d falls behind", term)
		}
	})
}
