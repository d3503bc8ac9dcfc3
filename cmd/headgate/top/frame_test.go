package top

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/server/events"
	"github.com/headgate-io/headgate/server/web/admin"
)

// shown returns a frame as text.
func shown(s *state, width, height int, at time.Time) string {
	var b strings.Builder
	for _, l := range s.frame(width, height, at) {
		b.WriteString(l.text + "\n")
	}
	return b.String()
}

// known returns a state after two readings, two seconds apart, and the time of the second.
func known() (*state, time.Time) {
	at := time.Unix(1_800_000_000, 0)
	s := &state{host: "127.0.0.1:7380"}
	now := admin.Now{Node: "n1", Version: "v1", Started: at.Add(-time.Hour).UTC().Format(time.RFC3339), Leader: true, Allowed: 100, Denied: 50, Memory: 5 << 20, MemoryLimit: 64 << 20}
	counts := []admin.LimitCount{{Policy: "api", Limit: "user", Denied: 10}, {Policy: "api", Limit: "trial"}, {Policy: "idle", Limit: "all", Allowed: 7}}
	s.took(&reading{at: at.Add(-2 * time.Second), now: now, counts: counts}, nil)
	now.Allowed, now.Denied = 110, 80
	counts = []admin.LimitCount{{Policy: "api", Limit: "trial", Allowed: 100, Shadow: 5}, {Policy: "api", Limit: "user", Denied: 30, Penalty: 10}, {Policy: "idle", Limit: "all", Allowed: 7}}
	s.took(&reading{at: at, now: now, counts: counts, keys: []ranked{{Key: "@api:user;user=eve", Count: 40, Blocked: 90_000}},
		past: []admin.Point{{Span: 5000, Denied: 10, P50: 3, P99: 9}, {Span: 5000, Denied: 70, P50: 3, P99: 7}}}, nil)
	return s, at
}

// A frame has rates since the reading before, and what denies most is first.
func TestFrame(t *testing.T) {
	s, at := known()
	s.hear(heard{lost: 3})
	s.hear(heard{event: events.Event{At: at.UnixMilli(), Type: events.Denied, Policy: "api", Limit: "user", Key: "@api:user;user=eve", Reason: "limit", Count: 12}})
	text := shown(s, 120, 40, at)
	require.Regexp(t, `^headgate v1  n1 leads  127\.0\.0\.1:7380  up 1h0m0s  \d\d:\d\d:\d\d\n\n`, text)
	require.Regexp(t, `\nallowed +5\.0/s  ▁▁\ndenied +15\.0/s  ▂█\ndegraded +0\.0/s  ▁▁\ndenial rate +75\.0 %  ██\np50 / p99 +3 / 7 µs  █▆\n`, text)
	require.Regexp(t, `\nmemory +5\.0 MiB of 64\.0 MiB  `, text)
	require.Regexp(t, `\n      40  @api:user;user=eve  blocked 1m30s +15\.0      0\.0       0\.0  api user\n +0\.0      2\.5      50\.0  api trial\n\nEVENTS`, text)
	require.NotContains(t, text, "idle", "nobody asks this policy now")
	require.Regexp(t, `\nEVENTS, the newest first \(3 not kept\)\n\d\d:\d\d:\d\d denied   api user @api:user;user=eve limit 12 times\n$`, text)
}

// Figures that are not those of now are said to be old, in the style of an alarm.
func TestStale(t *testing.T) {
	s, at := known()
	require.Empty(t, s.stale(at.Add(staleAfter)))
	require.Equal(t, "NO ANSWER for 4s, the figures are old", s.stale(at.Add(4*time.Second)))
	s.took(nil, errors.New("connection refused"))
	second := s.frame(120, 40, at.Add(time.Second))[1]
	require.Equal(t, line{"NO ANSWER for 1s, the figures are old: connection refused", alarm}, second)
	s.took(s.last, nil)
	require.Equal(t, plain, s.frame(120, 40, at)[1].style)
}

// Names from clients move no cursor, whatever they contain, and a frame fits its terminal.
func TestHostileNamesAndSmallTerminals(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine, and long under the race detector: make main runs it")
	}
	s, at := known()
	hostile := "\x1b[2J\x07\u202e\u0085\r\nx\x00" + strings.Repeat("長", 300)
	s.last.now.Version, s.last.now.Node = hostile, hostile
	s.last.keys = []ranked{{Key: hostile, Count: 1}}
	s.last.counts = []admin.LimitCount{{Policy: hostile, Limit: hostile, Denied: 9}}
	s.took(nil, errors.New(hostile))
	for range 2 * keptEvents {
		s.hear(heard{event: events.Event{Type: events.Type(hostile), Policy: hostile, Limit: hostile, Key: hostile, Reason: hostile, Author: hostile, Change: hostile, Role: hostile, Leader: hostile}})
	}
	require.Len(t, s.events, keptEvents)
	s.hear(heard{err: errors.New(hostile)})
	for width := range 130 {
		for _, height := range []int{1, 2, 10, 24, 60} {
			lines := s.frame(width, height, at)
			require.LessOrEqual(t, len(lines), height)
			for _, l := range lines {
				require.LessOrEqual(t, len([]rune(l.text)), width)
				require.Equal(t, -1, strings.IndexFunc(l.text, unprintable), "%q", l.text)
			}
		}
	}
	require.Equal(t, `\x1b[2J\a\u202e\u0085\r\nx\x00`, clean(hostile[:strings.Index(hostile, "長")]))
}

// Counts that a restart has set to 0 make no huge rates.
func TestFrameAfterARestart(t *testing.T) {
	s, at := known()
	r := *s.last
	r.at, r.now.Denied = at.Add(time.Second), 3
	s.took(&r, nil)
	require.Regexp(t, `\ndenied +3\.0/s`, shown(s, 80, 24, r.at))
}

func TestSizes(t *testing.T) {
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 5 << 20: "5.0 MiB", 3 << 40: "3.0 TiB", 1 << 60: "1048576.0 TiB"} {
		require.Equal(t, want, size(n), fmt.Sprint(n))
	}
}
