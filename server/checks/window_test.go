package checks_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/internal/rig"
)

// windows returns the last value of each limit in a reply, by the limit's name.
func windows(t *testing.T, reply any) map[string]int64 {
	t.Helper()
	values, ok := reply.([]any)
	require.True(t, ok, reply)
	all := make(map[string]int64)
	for _, l := range values[11].([]any) {
		limit := l.([]any)
		require.Len(t, limit, 11)
		all[limit[0].(string)] = limit[10].(int64)
	}
	return all
}

// In which time a limit admits its capacity, of every algorithm.
func TestWindowsOfLimits(t *testing.T) {
	r := rig.New(t, engine.Config{})
	r.SetPolicy("p", `{limits: {token: {rate: 5/m}, burst: {rate: 10/s burst 50}, odd: {algorithm: leaky, rate: 3/s burst 7}, half: {algorithm: fixed, rate: 5/500ms},
		first: {algorithm: sliding, align: first, rate: 5/90s}, log: {algorithm: log, rate: 5/h}, blocked: {rate: blocked, mode: shadow}, jobs: {concurrent: 3},
		day: {rate: 9/day, calendar: Europe/Berlin}, month: {rate: 9/month, calendar: UTC}}}`)
	const day = 24 * 3600 * 1000
	want := map[string]int64{"token": 60_000, "burst": 5000, "odd": 2334, "half": 500, "first": 90_000, "log": 3_600_000, "blocked": 0, "jobs": 0,
		"day": day, "month": 31 * day}
	require.Equal(t, want, windows(t, r.Words("RL.CHECK p")))
	require.Equal(t, want, windows(t, r.Words("RL.CHECK p COST 2")), "where more is written one by one")
	require.Equal(t, want, windows(t, r.Words("RL.CHECK p COST 0 PEEK")))

	held := r.Words("RL.RESERVE p COST 2").([]any)
	require.Equal(t, want, windows(t, held))
	hold := held[8].(string)
	require.True(t, strings.HasPrefix(hold, "p;"), hold)
	settled := windows(t, r.Words("RL.COMMIT "+hold+" COST 1"))
	settled["blocked"] = 0 // of which nothing was held
	require.Equal(t, want, settled)

	// A SCALE leaves windows as they are, but where it rounds.
	r.Is("RL.OVERRIDE SET p SCALE 50%", "OK")
	want["odd"] = 2000 // 2/s burst 4
	require.Equal(t, want, windows(t, r.Words("RL.CHECK p PEEK")))
}
