package boottime

import (
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestNow(t *testing.T) {
	begin, at := time.Now(), Now()
	require.NotZero(t, at)
	time.Sleep(20 * time.Millisecond)
	passed := time.Duration(Now() - at)
	require.GreaterOrEqual(t, passed, 20*time.Millisecond)
	require.LessOrEqual(t, passed, time.Since(begin))
}

func TestAsleep(t *testing.T) {
	before, ok := Asleep()
	require.True(t, ok)
	time.Sleep(20 * time.Millisecond)
	after, ok := Asleep()
	require.True(t, ok)
	require.InDelta(t, before, after, float64(2*closeReadings), "a process that sleeps is no machine that is suspended")
}

func TestID(t *testing.T) {
	require.Equal(t, runtime.GOOS == "linux", ID() != "")
	require.Equal(t, ID(), ID())
}

func BenchmarkNow(b *testing.B) {
	for b.Loop() {
		Now()
	}
}
