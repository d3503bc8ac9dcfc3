package clock

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestResume(t *testing.T) {
	const (
		last = int64(1_000_000 * time.Second)
		hour = int64(time.Hour)
		now  = last + hour // what an hour later is
		none = last        // the clock goes on from its last value
	)
	// saved is a node whose wall clock was slow when it saved, and is now slow
	// by as much or something else.
	saved := func(slow, slowNow int64) Report {
		return Report{Saved: true, Offset: slow, SavedWall: last - slow, Wall: now - slowNow}
	}
	right, repaired, slow := saved(0, 0), saved(hour, 0), saved(hour, hour)
	set := saved(0, hour+int64(time.Second)) // back, while it was down
	kept := func(term uint64, clock int64) Report {
		return Report{Kept: true, Term: term, Now: clock, Saved: true, Offset: 5 * hour, SavedWall: last, Wall: now}
	}
	lost := Report{Wall: now}
	for _, c := range []struct {
		name    string
		reports []Report
		voters  int
		want    int64
		known   bool
	}{
		{"one has kept it", []Report{right, kept(3, now-7), right}, 3, now - 7, true},
		{"two have: the closest bound", []Report{kept(3, now-7), kept(3, now-5)}, 3, now - 5, true},
		{"the latest leader's", []Report{kept(3, now), kept(4, now-20)}, 3, now - 20, true},
		{"never behind the log", []Report{kept(3, last-1)}, 1, last, true},

		{"three, right", []Report{right, right, right}, 3, now, true},
		{"two of three, one dead", []Report{right, right}, 3, now, true},
		{"one of three knows its own clock only", []Report{right}, 3, none, false},
		{"this node's was put right by an hour", []Report{repaired, right, right}, 3, now, true},
		{"one of two that answer was put right", []Report{right, repaired}, 3, none, false},
		{"an hour slow before and after, but alone", []Report{slow, right}, 3, none, false},
		{"an hour slow before and after, all", []Report{slow, slow, slow}, 3, now, true},
		{"one has lost its file", []Report{lost, right, right}, 3, now, true},
		{"two have", []Report{lost, lost, right}, 3, none, false},
		{"one was set back", []Report{set, right}, 3, none, false},
		{"one was set ahead", []Report{saved(0, -hour), right}, 3, none, false},
		{"one was set ahead, and two were not", []Report{saved(0, -hour), right, right}, 3, now, true},
		{"one was wrong, and is wrong by something else", []Report{repaired, right}, 3, none, false},
		{"all differ", []Report{saved(-hour, -hour), right, slow}, 3, none, false},
		{"three of five", []Report{right, repaired, right, slow, right}, 5, now, true},
		{"two of four are no majority", []Report{right, right, repaired, repaired}, 4, none, false},
		{"the earliest of those that agree", []Report{saved(int64(time.Second), 0), right, right}, 3, now, true},

		{"the only node", []Report{right}, 1, now, true},
		{"the only node, an hour from its wall clock", []Report{repaired}, 1, none, false},
		{"the only node, set back", []Report{set}, 1, none, false},
		{"the only node, set back, and saved since the log's last", []Report{{Saved: true, SavedWall: now + 1, Wall: now}}, 1, none, false},
		{"the only node, behind its log", []Report{{Saved: true, SavedWall: last - hour, Wall: last - 1}}, 1, none, false},
		{"the only node, without its file", []Report{lost}, 1, none, false},
	} {
		got, known := Resume(c.reports, c.voters, last)
		require.Equal(t, c.known, known, c.name)
		require.Equal(t, time.Duration(c.want-last), time.Duration(got-last), c.name)
	}
}

// The test assumes that the wall clocks of a majority of voters were right and
// still are. Then the clock is wrong by at most the tolerance of wall clocks,
// or unknown, for any error of the other clocks and any voters that answer.
func TestResumeTrustsNoMinority(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const last = int64(1_000_000 * time.Second)
		now := last + rapid.Int64Range(0, int64(1000*time.Hour)).Draw(t, "down")
		voters := rapid.IntRange(2, 7).Draw(t, "voters")
		wrong := rapid.IntRange(0, (voters-1)/2).Draw(t, "wrong")
		var reports []Report
		answered := 0
		for i := range voters {
			if answered > voters/2 && rapid.Bool().Draw(t, "dead") {
				continue
			}
			answered++
			r := Report{Saved: true, SavedWall: last, Wall: now}
			if i < wrong {
				hours := rapid.SampledFrom([]int64{-1, 0, 1})
				r.Offset = hours.Draw(t, "slow then") * int64(time.Hour)
				r.SavedWall -= r.Offset
				r.Wall -= hours.Draw(t, "slow now") * int64(time.Hour)
				r.Saved = rapid.Bool().Draw(t, "saved")
			} else {
				off := rapid.Int64Range(-Agreement/4, Agreement/4)
				r.Offset += off.Draw(t, "off then")
				r.Wall += off.Draw(t, "off now")
			}
			reports = append(reports, r)
		}
		got, known := Resume(rapid.Permutation(reports).Draw(t, "order"), voters, last)
		require.LessOrEqual(t, got, now+2*Agreement)
		if known {
			require.GreaterOrEqual(t, got, now-2*Agreement)
		} else {
			require.Equal(t, last, got)
		}
	})
}
