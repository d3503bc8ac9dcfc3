package oracle

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/faults/history"
)

func TestLiveness(t *testing.T) {
	a, d := history.Admitted, history.Denied
	var calls []history.Call
	for i := range int64(100) {
		calls = append(calls, call(10*i, 10*i+1, a, 0))
	}
	calls[40].Outcome, calls[41].Outcome, calls[42].Outcome = history.Refused, history.Refused, history.Unknown
	calls[43].End += 25 * ms
	calls[60].Outcome, calls[60].Local = d, true
	for i := 80; i < 90; i++ {
		calls[i].Node = 1
	}
	h := one(fixedKey(9), calls...)
	l := MeasureLiveness(h, []Outage{{Node: 1, From: 790 * ms, To: 905 * ms}}, 20*time.Millisecond, []time.Duration{3, 1, 2, 2})
	require.Equal(t, 90, l.Calls)
	require.InDelta(t, 2.0/90, l.Refused, 1e-9)
	require.InDelta(t, 1.0/90, l.Unknown, 1e-9)
	require.InDelta(t, 1.0/90, l.Late, 1e-9)
	require.InDelta(t, 1.0/87, l.Local, 1e-9)
	require.Equal(t, 41*time.Millisecond, l.Silence, "from 400 ms to 441 ms")
	require.EqualValues(t, 2, l.Gap)

	// What is apart is not measured with the others.
	h.Keys = append(h.Keys, history.Key{Name: "apart", Apart: true})
	for i := range int64(50) {
		h.Calls = append(h.Calls, history.Call{Key: 1, Due: i * ms, Start: i * ms, End: (400 + i) * ms, Outcome: history.Outcome(i % 4)})
	}
	require.Equal(t, l, MeasureLiveness(h, []Outage{{Node: 1, From: 790 * ms, To: 905 * ms}}, 20*time.Millisecond, []time.Duration{3, 1, 2, 2}))
	_, share := Promptness(h, nil, 20*time.Millisecond, 0)
	require.InDelta(t, .96, share, 1e-9)

	b := LivenessBounds{Refused: .023, Unknown: .012, Late: .012, Silence: 41 * time.Millisecond, Gap: 2}
	require.True(t, Live(l, b, 1, 0).OK)
	for _, worse := range []func(*Liveness){
		func(l *Liveness) { l.Refused *= 1.1 }, func(l *Liveness) { l.Unknown *= 1.2 }, func(l *Liveness) { l.Late *= 1.2 },
		func(l *Liveness) { l.Silence++ }, func(l *Liveness) { l.Gap++ }, func(l *Liveness) { l.Calls = 0 },
	} {
		bad := l
		worse(&bad)
		require.False(t, Live(bad, b, 1, 0).OK)
		if bad.Calls > 0 {
			require.True(t, Live(bad, b, 2, 0).OK)
		}
	}
	l.Late = .1
	require.False(t, Live(l, b, 3, .05).OK)
	require.True(t, Live(l, b, 3, .09).OK, "the machine kept calls waiting")
}

// The median of a few harms is any of them, and an election now and then takes longer than the usual one.
func TestTheMedianOfFewGapsIsAnyOfThem(t *testing.T) {
	const ms = time.Millisecond
	b := within(1, 1, 1, 2200*ms, 1500*ms)
	for _, c := range []struct {
		gap, silence time.Duration
		gaps         int
		want         bool
	}{
		{1500 * ms, 1600 * ms, 4, true}, {1501 * ms, 1600 * ms, 4, false}, {1690 * ms, 1600 * ms, 50, false},
		{1690 * ms, 1700 * ms, 1, true}, {2200 * ms, 2200 * ms, 3, true}, {2201 * ms, 2100 * ms, 1, false},
		{1690 * ms, 2201 * ms, 1, false},
	} {
		require.Equal(t, c.want, Live(Liveness{Calls: 1, Silence: c.silence, Gap: c.gap, Gaps: c.gaps}, b, 1, 0).OK, c)
	}
	// Where no election is to be, none is allowed for.
	require.False(t, Live(Liveness{Calls: 1, Gap: 151 * ms, Gaps: 1}, within(1, 1, 1, 2200*ms, 100*ms), 1, 0).OK)
}

func within(refused, unknown, late float64, silence, gap time.Duration) LivenessBounds {
	return LivenessBounds{Refused: refused, Unknown: unknown, Late: late, Silence: silence, Gap: gap}
}

// A load that pauses asks nothing meanwhile.
func TestSilenceIsWithoutPauses(t *testing.T) {
	calls := []history.Call{call(0, 1, history.Admitted, 0)}
	for i := int64(10); i <= 1200; i += 10 {
		calls = append(calls, call(i, i+1, history.Refused, 0))
	}
	calls = append(calls, call(9000, 9001, history.Refused, 0), call(9010, 9013, history.Admitted, 0))
	l := MeasureLiveness(one(fixedKey(9), calls...), nil, time.Second, nil)
	require.Equal(t, 1203*time.Millisecond, l.Silence, "from 10 ms to 1200 ms, and from 9000 ms to 9013 ms")
}
