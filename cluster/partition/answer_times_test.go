package partition

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAnswerTimes(t *testing.T) {
	const ms = time.Millisecond
	var a answerTimes
	require.Equal(t, promptAnswer, a.wait(100*ms))
	require.Equal(t, 5*ms, a.wait(5*ms), "the bound wins")
	for range 100 {
		a.add(ms, true)
	}
	require.Equal(t, promptAnswer, a.wait(100*ms))
	a.add(15*ms, true)
	require.Equal(t, promptAnswer, a.wait(100*ms), "late for once")
	a.miss()
	require.LessOrEqual(t, a.wait(100*ms), 15*ms, "and within what callers expect")
	a.forgive()
	for range 100 {
		a.add(40*ms, true)
	}
	require.InDelta(t, 80*ms, a.wait(time.Second), float64(5*ms))
	a.miss()
	require.InDelta(t, 100*ms, a.wait(time.Second), float64(5*ms))
	a.add(40*ms, false)
	require.InDelta(t, 100*ms, a.wait(time.Second), float64(5*ms), "a greeting is no answer")
	for range 100 {
		a.miss()
	}
	require.Equal(t, time.Second, a.wait(time.Second))
	a.forgive()
	require.InDelta(t, 80*ms, a.wait(time.Second), float64(5*ms))
}
