package calendar

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// instant returns a time of UTC such as 2026-03-17 23:00 in ns.
func instant(t *testing.T, s string) int64 {
	t.Helper()
	at, err := time.Parse("2006-01-02 15:04", s)
	require.NoError(t, err)
	return at.UnixNano()
}

func made(t *testing.T, r Rules) *Calendar {
	t.Helper()
	c, err := New(r)
	require.NoError(t, err)
	return c
}

// Windows that people have been surprised by. All times are UTC.
func TestWindows(t *testing.T) {
	f := func(r Rules, at, begin, end string) {
		t.Helper()
		b, e := made(t, r).Around(instant(t, at))
		const form = "2006-01-02 15:04"
		require.Equal(t, begin+" to "+end, time.Unix(0, b).UTC().Format(form)+" to "+time.Unix(0, e).UTC().Format(form), "%+v", r)
	}
	day := func(zone, at, begin, end string) { t.Helper(); f(Rules{Zone: zone, Period: Day}, at, begin, end) }
	day("UTC", "2026-03-01 12:00", "2026-03-01 00:00", "2026-03-02 00:00")
	day("Europe/Paris", "2026-03-29 12:00", "2026-03-28 23:00", "2026-03-29 22:00")     // 23 hours
	day("America/New_York", "2026-11-01 12:00", "2026-11-01 04:00", "2026-11-02 05:00") // 25
	day("Asia/Kathmandu", "2026-03-01 12:00", "2026-02-28 18:15", "2026-03-01 18:15")
	// No midnight: the day begins at one o'clock.
	day("Africa/Cairo", "2024-04-26 12:00", "2024-04-25 22:00", "2024-04-26 21:00")
	day("Africa/Cairo", "2024-04-25 21:59", "2024-04-24 22:00", "2024-04-25 22:00")
	day("Asia/Beirut", "2024-03-31 12:00", "2024-03-30 22:00", "2024-03-31 21:00")
	// Midnight twice: the day begins at the first.
	day("America/Havana", "2026-11-01 04:30", "2026-11-01 04:00", "2026-11-02 05:00")
	day("America/Havana", "2026-11-01 05:30", "2026-11-01 04:00", "2026-11-02 05:00")
	// The 30th is left out.
	day("Pacific/Apia", "2011-12-30 09:59", "2011-12-29 10:00", "2011-12-30 10:00")
	day("Pacific/Apia", "2011-12-30 10:00", "2011-12-30 10:00", "2011-12-31 10:00")
	f(Rules{Zone: "Pacific/Apia", Period: Day, At: 360}, "2011-12-30 12:00", "2011-12-30 10:00", "2011-12-30 16:00") // six hours of it
	// Half an hour.
	day("Australia/Lord_Howe", "2026-04-05 00:00", "2026-04-04 13:00", "2026-04-05 13:30")
	// A minute past midnight the clock goes back to the day before, which is over.
	day("America/St_Johns", "2010-11-07 02:30", "2010-11-07 02:30", "2010-11-08 03:30")
	day("America/St_Johns", "2010-11-07 02:45", "2010-11-07 02:30", "2010-11-08 03:30")

	f(Rules{Zone: "America/St_Johns", Period: Week}, "2010-11-07 02:45", "2010-11-01 02:30", "2010-11-08 03:30")
	f(Rules{Zone: "UTC", Period: Week}, "1970-01-01 00:00", "1969-12-29 00:00", "1970-01-05 00:00")

	month := func(day int, at, begin, end string) {
		t.Helper()
		f(Rules{Zone: "UTC", Period: Month, Day: day}, at, begin, end)
	}
	month(0, "2026-02-15 00:00", "2026-02-01 00:00", "2026-03-01 00:00")
	month(1, "2026-02-01 00:00", "2026-02-01 00:00", "2026-03-01 00:00")
	month(31, "2026-02-27 23:59", "2026-01-31 00:00", "2026-02-28 00:00")
	month(31, "2026-02-28 00:00", "2026-02-28 00:00", "2026-03-31 00:00")
	month(30, "2028-02-29 00:00", "2028-02-29 00:00", "2028-03-30 00:00")
	month(29, "2026-03-01 00:00", "2026-02-28 00:00", "2026-03-29 00:00")
	f(Rules{Zone: "Pacific/Apia", Period: Month, Day: 30}, "2011-12-30 10:00", "2011-12-30 10:00", "2012-01-29 10:00")
	f(Rules{Zone: "UTC", Period: Month, At: 30}, "2026-03-01 00:29", "2026-02-01 00:30", "2026-03-01 00:30")

	f(Rules{Zone: "UTC", Period: Quarter}, "2026-03-31 00:00", "2026-01-01 00:00", "2026-04-01 00:00")
	f(Rules{Zone: "UTC", Period: Quarter, Day: 31}, "2026-04-29 00:00", "2026-01-31 00:00", "2026-04-30 00:00")
	f(Rules{Zone: "Europe/London", Period: Year, Month: 4, Day: 6}, "2026-04-05 23:00", "2026-04-05 23:00", "2027-04-05 23:00")
	f(Rules{Zone: "UTC", Period: Year, Month: 2, Day: 29}, "2027-01-01 00:00", "2026-02-28 00:00", "2027-02-28 00:00")
	f(Rules{Zone: "UTC", Period: Year, Month: 2, Day: 29}, "2028-02-28 12:00", "2027-02-28 00:00", "2028-02-29 00:00")

	// The last day of a leap year after the table of a zone.
	day("Europe/Paris", "2028-12-31 12:00", "2028-12-30 23:00", "2028-12-31 23:00")
	day("America/New_York", "2028-12-31 12:00", "2028-12-31 05:00", "2029-01-01 05:00")
	day("Australia/Lord_Howe", "2028-12-31 12:00", "2028-12-30 13:00", "2028-12-31 13:00")

	// A wall time that a change leaves out, and one that comes twice.
	f(Rules{Zone: "America/New_York", Period: Day, At: 150}, "2026-03-08 07:00", "2026-03-08 07:00", "2026-03-09 06:30")
	f(Rules{Zone: "America/New_York", Period: Day, At: 90}, "2026-11-01 06:45", "2026-11-01 05:30", "2026-11-02 06:30")
	f(Rules{Zone: "Asia/Tokyo", Period: Day, At: 360}, "2026-03-01 20:59", "2026-02-28 21:00", "2026-03-01 21:00")
}

func TestRulesThatAreNone(t *testing.T) {
	f := func(r Rules, want string) {
		t.Helper()
		_, err := New(r)
		require.EqualError(t, err, want)
	}
	for _, zone := range []string{"", "Local", "utc", "Europe", "Europe/", "../UTC", "Europe/Pariss"} {
		_, err := New(Rules{Zone: zone, Period: Day})
		require.ErrorContains(t, err, "there is no zone", zone)
	}
	f(Rules{Zone: "UTC"}, errPeriod.Error())
	f(Rules{Zone: "UTC", Period: Year + 1}, errPeriod.Error())
	f(Rules{Zone: "UTC", Period: Day, At: -1}, errAt.Error())
	f(Rules{Zone: "UTC", Period: Day, At: 1440}, errAt.Error())
	f(Rules{Zone: "UTC", Period: Day, Day: 1}, errAnchor.Error())
	f(Rules{Zone: "UTC", Period: Week, Month: 1, Day: 1}, errAnchor.Error())
	f(Rules{Zone: "UTC", Period: Month, Day: 32}, errDay.Error())
	f(Rules{Zone: "UTC", Period: Quarter, Month: 1, Day: 3}, errDay.Error())
	f(Rules{Zone: "UTC", Period: Year, Day: 3}, errDate.Error())
	f(Rules{Zone: "UTC", Period: Year, Month: 2, Day: 30}, "February has no day 30")
	f(Rules{Zone: "UTC", Period: Year, Month: 13, Day: 1}, errDate.Error())
	for p := Day; p <= Year; p++ {
		again, ok := ParsePeriod(p.String())
		require.True(t, ok)
		require.Equal(t, p, again)
		r := Rules{Zone: "UTC", Period: p, At: 1439}
		require.Equal(t, r, made(t, r).Rules())
	}
	_, ok := ParsePeriod("")
	require.False(t, ok)
}

// Every known zone can be loaded.
func TestZones(t *testing.T) {
	names := Zones()
	require.Greater(t, len(names), 400)
	for _, name := range names {
		z, err := Zone(name)
		require.NoError(t, err)
		require.Equal(t, name, z.String())
	}
}

// Rules come from the binary, whatever the machine has: otherwise two nodes of a
// cluster could differ.
func TestZonesAreNotTheMachines(t *testing.T) {
	const own = "HGTEST_ZONES"
	if os.Getenv(own) == "" {
		dir := t.TempDir()
		require.NoError(t, os.Mkdir(filepath.Join(dir, "Europe"), 0o755))
		f, err := archive().Open("Asia/Tokyo")
		require.NoError(t, err)
		tokyo, err := io.ReadAll(f)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, "Europe/Paris"), tokyo, 0o600))
		exe, err := os.Executable()
		require.NoError(t, err)
		cmd := exec.CommandContext(t.Context(), exe, "-test.run=^"+t.Name()+"$")
		cmd.Env = append(os.Environ(), own+"=1", "ZONEINFO="+dir)
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		return
	}
	offset := func(zone *time.Location, err error) int {
		require.NoError(t, err)
		_, offset := time.Unix(1_700_000_000, 0).In(zone).Zone()
		return offset
	}
	require.Equal(t, 9*3600, offset(time.LoadLocation("Europe/Paris")), "this machine has rules of its own")
	require.Equal(t, 3600, offset(Zone("Europe/Paris")))
}

// For calls in any order, the result is a window that contains the instant, and
// the next one.
func TestManyAskOneCalendar(t *testing.T) {
	c := made(t, Rules{Zone: "Africa/Cairo", Period: Day})
	from, hour := instant(t, "2024-04-24 00:00"), int64(time.Hour)
	var all sync.WaitGroup
	for i := range int64(4) {
		all.Go(func() {
			for n := range int64(2000) {
				now := from + (n*31+i*17)%96*hour
				w := c.Window(now)
				if w.End <= now || w.End > now+25*hour || w.Next <= w.End || w.Next > w.End+25*hour {
					t.Errorf("at %d: %+v", now, w)
				}
			}
		})
	}
	all.Wait()
	require.Zero(t, testing.AllocsPerRun(100, func() { c.Window(from) }))
}
