package script

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// nowhere keeps no texts.
type nowhere struct{}

func (nowhere) Kept() bool                       { return false }
func (nowhere) Generation() uint64               { return 0 }
func (nowhere) Holds(string) bool                { return false }
func (nowhere) Text(string) (string, bool, bool) { return "", false, false }

// Runs are counted by script, and in the total also after a script is
// forgotten.
func TestRuns(t *testing.T) {
	c := NewCache(NewEnvironment("7.2.0"), nowhere{})
	load := func(body string) *Script {
		s, _, err := c.Load([]byte(body), false)
		require.NoError(t, err)
		return s
	}
	a, b := load("return 1"), load("return 2")
	require.True(t, a.Runs.Due(0, true, 0), "the first one is timed")
	for i := range uint8(10) {
		a.Runs.Count(i, i%2 == 0, 1)
	}
	require.False(t, a.Runs.Due(0, true, 0))
	require.True(t, a.Runs.Due(0, true, Sampled-3), "as if three had been counted and so many not")
	require.True(t, a.Runs.Due(0, false, 0))
	a.Runs.Time(0, 3*time.Microsecond)
	a.Runs.Time(1, time.Microsecond)
	b.Runs.Count(0, false, 1)
	b.Runs.Moved()
	b.Runs.Failed()
	b.Runs.Ended()
	b.Runs.Time(7, time.Millisecond)

	want := RunTotals{Native: 5, Interpreted: 5, Timed: 2, Took: 4 * time.Microsecond, Longest: 3 * time.Microsecond}
	got := a.Runs.Totals()
	require.Equal(t, want, got)
	require.EqualValues(t, 10, got.Runs())
	require.Equal(t, 2*time.Microsecond, got.Mean())
	all := RunTotals{Native: 5, Interpreted: 6, Moved: 1, Failed: 1, Ended: 1, Timed: 3, Took: 1004 * time.Microsecond, Longest: time.Millisecond}
	require.Equal(t, all, c.Runs())
	c.Flush()
	require.Equal(t, all, c.Runs(), "of scripts that are not known any more")
	load("return 3").Runs.Count(0, true, 1)
	for i := range 2 * shelfScripts {
		load(fmt.Sprintf("return %d", i))
	}
	all.Native++
	require.Equal(t, all, c.Runs(), "of scripts that have made room")
	c.ResetRuns()
	require.Zero(t, c.Runs())
}

func TestTitle(t *testing.T) {
	long := strings.Repeat("é", 40)
	for body, want := range map[string]string{
		"":         "",
		"return 1": "return 1",
		"#!lua flags=no-writes\n\n-- a comment\n\tlocal  x =\t1\r\nreturn x": "local x = 1",
		"\x00\x1b[31mreturn\xff 1\u202e":                                     "[31mreturn 1",
		long:                                                                 strings.Repeat("é", 28) + "…",
		strings.Repeat("\n", 1<<20) + "return 1":                             "",
	} {
		require.Equal(t, want, (&Script{Body: body}).Title(), "%q", body)
		require.LessOrEqual(t, len(want), maxTitle)
	}
}

// What counting costs for a run that is not timed.
func BenchmarkRuns(b *testing.B) {
	var r Runs
	r.Count(1, true, 1)
	timed := 0
	for b.Loop() {
		if r.Due(0, true, 0) {
			timed++
		}
		r.Count(0, true, 1)
	}
}

// The runs of all scripts are each counted once while scripts make room or are
// flushed: who looks never finds fewer than before.
func TestTotalsDoNotFall(t *testing.T) {
	cache := NewCache(NewEnvironment("7.0.15"), nowhere{})
	const flushes, scripts = 500, 20
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range flushes * scripts {
			s, _, err := cache.Load(fmt.Appendf(nil, "return %d", i), false)
			if err != nil {
				t.Error(err)
				return
			}
			s.Runs.Count(0, false, 1)
			if i%scripts == 0 {
				cache.Flush()
			}
		}
	}()
	most := uint64(0)
	for over := false; !over; {
		select {
		case <-done:
			over = true
		default:
		}
		total := cache.Runs()
		require.GreaterOrEqual(t, total.Runs(), most)
		most = total.Runs()
	}
}
