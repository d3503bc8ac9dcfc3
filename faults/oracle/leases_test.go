package oracle

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/internal/askers"
)

func at(t int64) askers.Span { return askers.Span{From: t * ms, To: t*ms + 1000} }

// spends are units at one time.
func spends(t int64, units int) (s []askers.Span) {
	for range units {
		s = append(s, at(t))
	}
	return s
}

// leasing is a limit of 100 per second and a holder who was granted 20 at 100 ms, and spent 15 of them at 500 ms.
func leasing() *Leased {
	holder := &askers.Log{
		Grants:   []askers.Grant{{Span: at(100), OK: true, Need: 1, Granted: 21, TTL: leaseTTL}},
		Admitted: append(spends(100, 1), spends(500, 15)...),
	}
	plain := &askers.Log{Admitted: spends(400, 75)}
	return &Leased{
		Units: 100, Period: time.Second, Callers: []LeaseCaller{{Log: holder}, {Log: plain, Plain: true}},
		Events: []LeaseEvent{{Name: "load", At: at(0)}},
		Sights: []LeaseSight{{Span: at(350), Limit: 100, Left: 80, Out: 20}, {Span: at(600), Limit: 100, Left: 10, Out: 5}},
	}
}

// The checks find nothing where all is well.
func TestLeasesInOrder(t *testing.T) {
	l := leasing()
	require.EqualValues(t, 19, Holds(l.Callers[0].Log, at(350)), "20, less the call at the time of the request")
	require.EqualValues(t, 4, Holds(l.Callers[0].Log, at(600)))
	require.Zero(t, Holds(l.Callers[0].Log, at(2100)), "after the deadline")
	f, results := Leases(l)
	require.True(t, f.OK, f.String())
	require.Equal(t, []LeaseResult{{Name: "load", Times: 1}}, results)
}

func TestLeasesOutOfOrder(t *testing.T) {
	for what, harm := range map[string]func(*Leased){
		"spent more than the limit": func(l *Leased) {
			l.Callers[1].Admitted = append(l.Callers[1].Admitted, spends(450, 30)...)
		},
		"the server knows of less than is out": func(l *Leased) { l.Sights[0].Out = 18 },
		"more is left than what is out leaves": func(l *Leased) { l.Sights[0].Left = 81 },
		"a lower limit":                        func(l *Leased) { l.Events = append(l.Events, LeaseEvent{Name: "lower", At: at(300), Units: 50}) },
	} {
		l := leasing()
		harm(l)
		f, _ := Leases(l)
		require.False(t, f.OK, what)
		require.Len(t, f.Details, 1, what)
	}
}

// A lost leader may take along what it had granted just then, and no more.
func TestLeasesOfALostLeader(t *testing.T) {
	l := leasing()
	l.Events = append(l.Events, LeaseEvent{Name: "lost", At: at(200)})
	l.Sights[0].Out = 0
	l.Callers[1].Admitted = append(l.Callers[1].Admitted, spends(450, 25)...)
	f, _ := Leases(l)
	require.False(t, f.OK)
	l.Losses = []Loss{{From: 50 * ms, To: 250 * ms}}
	f, results := Leases(l)
	require.True(t, f.OK, f.String())
	require.EqualValues(t, 21, results[1].Bound)
	require.EqualValues(t, 19, results[1].Unseen)
	require.InDelta(t, 5, results[1].Extra, 1)
}

// A limit that is made full again begins anew; a deleted one has forgotten what is out.
func TestLeasesOfANewLimit(t *testing.T) {
	l := leasing()
	l.Callers[1].Admitted = append(spends(200, 70), l.Callers[1].Admitted...)
	f, _ := Leases(l)
	require.False(t, f.OK)
	l.Events = append(l.Events, LeaseEvent{Name: "reset", At: at(300), Units: 100})
	f, _ = Leases(l)
	require.True(t, f.OK, f.String())
	l.Sights[0].Out = 0
	l.Events[1].Forgets = true
	f, results := Leases(l)
	require.True(t, f.OK, f.String())
	require.EqualValues(t, 25, results[1].Bound)
}
