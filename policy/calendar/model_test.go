package calendar

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// awkward are zones whose clocks do what one does not expect.
var awkward = []string{
	"Africa/Cairo", "Asia/Beirut", "America/Havana", "Pacific/Apia", "Australia/Lord_Howe", "America/St_Johns",
	"America/New_York", "Europe/Paris", "Asia/Kathmandu", "Africa/Casablanca",
}

// walk is a slow model of a calendar. It goes through time with a clock on the
// wall. It begins a window when the clock first shows the day and time at which
// the window begins.
type walk struct {
	rules Rules
	// day is the next one on which a window begins, in UTC, and due what the clock
	// on the wall is to show then.
	day    time.Time
	due    [5]int
	begins []int64 // Unix seconds
}

// starts reports whether a window begins on a day, read off a calendar on paper.
func (w *walk) starts(day time.Time) bool {
	last := day.AddDate(0, 0, 1).Day() == 1
	anchor := func(n int) bool { return day.Day() == n || last && n > day.Day() }
	switch w.rules.Period {
	case Day:
		return true
	case Week:
		return day.Weekday() == time.Monday
	case Month:
		return anchor(max(w.rules.Day, 1))
	case Quarter:
		return anchor(max(w.rules.Day, 1)) && (day.Month() == time.January || day.Month() == time.April || day.Month() == time.July || day.Month() == time.October)
	}
	return anchor(max(w.rules.Day, 1)) && day.Month() == time.Month(max(w.rules.Month, 1))
}

func (w *walk) turn() {
	for w.day = w.day.AddDate(0, 0, 1); !w.starts(w.day); {
		w.day = w.day.AddDate(0, 0, 1)
	}
	y, m, d := w.day.Date()
	w.due = [5]int{y, int(m), d, w.rules.At / 60, w.rules.At % 60}
}

// face is what a clock shows, and how far it is from UTC.
func face(at int64, zone *time.Location) (shown [5]int, offset int) {
	_, offset = time.Unix(at, 0).In(zone).Zone()
	t := time.Unix(at+int64(offset), 0).UTC()
	y, m, d := t.Date()
	hour, minute, _ := t.Clock()
	return [5]int{y, int(m), d, hour, minute}, offset
}

func before(a, b [5]int) bool {
	for i := range a {
		if a[i] != b[i] {
			return a[i] < b[i]
		}
	}
	return false
}

// meet begins windows that are due when the clock shows a time.
func (w *walk) meet(at int64, shown [5]int) {
	if before(shown, w.due) {
		return
	}
	w.begins = append(w.begins, at)
	for !before(shown, w.due) {
		w.turn()
	}
}

// through walks through a time, an hour at a step, or a minute where something
// happens in the hour.
func through(walks []*walk, zone *time.Location, from, to int64) {
	const hour, minute = 3600, 60
	_, was := face(from, zone)
	for at := from; at < to; at += hour {
		last, is := face(at+hour-1, zone)
		even := is == was
		was = is
		calm := func() bool {
			return even && !slices.ContainsFunc(walks, func(w *walk) bool { return !before(last, w.due) })
		}
		for m := at; m < at+hour && !calm(); m += minute {
			shown, _ := face(m, zone)
			for _, w := range walks {
				w.meet(m, shown)
			}
		}
	}
}

// Of every zone and every period, from 1970 to 2100, each instant is in exactly
// one window, and that begins when the model says.
func TestWindowsAgainstAModel(t *testing.T) {
	from, to := time.Date(1970, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2101, 1, 1, 0, 0, 0, 0, time.UTC)
	if testing.Short() {
		from, to = time.Date(2008, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2013, 1, 1, 0, 0, 0, 0, time.UTC)
	}
	at := []int{0, 6 * 60, 150, 23*60 + 59}
	for i, name := range awkward {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			odd := at[i%len(at)]
			rules := []Rules{
				{Period: Day}, {Period: Day, At: max(odd, 30)}, {Period: Week}, {Period: Week, At: odd},
				{Period: Month}, {Period: Month, Day: 31}, {Period: Month, Day: 30, At: odd}, {Period: Month, Day: 29}, {Period: Month, Day: 17},
				{Period: Quarter}, {Period: Quarter, Day: 31, At: odd}, {Period: Quarter, Day: 15},
				{Period: Year}, {Period: Year, Month: 2, Day: 29}, {Period: Year, Month: 4, Day: 6, At: odd}, {Period: Year, Month: 12, Day: 31},
			}
			zone, err := Zone(name)
			require.NoError(t, err)
			var walks []*walk
			for _, r := range rules {
				r.Zone = name
				w := &walk{rules: r, day: from.Add(-72 * time.Hour)}
				w.turn()
				walks = append(walks, w)
			}
			through(walks, zone, from.Unix(), to.Unix())
			for _, w := range walks {
				w.check(t)
			}
		})
	}
}

// check compares the windows of the model with those of the calendar. The first
// begin is where the walk begins, in the midst of one perhaps.
func (w *walk) check(t *testing.T) {
	t.Helper()
	c := made(t, w.rules)
	const second = int64(time.Second)
	for i := 1; i+2 < len(w.begins); i++ {
		want := span{Window{w.begins[i+1] * second, w.begins[i+2] * second}, w.begins[i] * second}
		for _, now := range []int64{want.begin, want.End - 1} {
			if got := *c.find(now); got != want {
				require.Equal(t, want, got, "%+v at %d", w.rules, now)
			}
		}
		if now := want.begin + (want.End-want.begin)/3; *c.Window(now) != want.Window {
			require.Equal(t, want.Window, *c.Window(now), "%+v at %d", w.rules, now)
		}
	}
	if w.rules.Period == Day {
		require.Greater(t, len(w.begins), 1500)
	}
}
