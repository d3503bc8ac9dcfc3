package oracle

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/internal/askers"
)

// windowed is a limit of 100 per second. A holder has a block of 60 from 200 ms to 1 s, and spends it at 500 ms. It spends
// 70 units of the next window, late.
func windowed(sliding bool) (*Windowed, *askers.Log) {
	log := &askers.Log{
		Grants:   []askers.Grant{{Span: at(200), Granted: 60, TTL: 800 * time.Millisecond}},
		Admitted: append(spends(500, 60), spends(1700, 70)...),
	}
	return &Windowed{Sliding: sliding, Units: 100, Period: time.Second, Callers: []LeaseCaller{{Log: log}}}, log
}

func TestWindowsInOrder(t *testing.T) {
	for _, sliding := range []bool{false, true} {
		l, log := windowed(sliding)
		require.True(t, Windows(l).OK)
		log.Admitted = append(log.Admitted, spends(990, 100)...) // one window or the other
		require.True(t, Windows(l).OK, "calls at the end of a window are in doubt")
	}
}

func TestWindowsOutOfOrder(t *testing.T) {
	for what, harm := range map[string]func(*Windowed, *askers.Log){
		"too many in a window":       func(_ *Windowed, log *askers.Log) { log.Admitted = append(log.Admitted, spends(1800, 32)...) },
		"a block for too long":       func(_ *Windowed, log *askers.Log) { log.Grants[0].TTL = 900 * time.Millisecond },
		"a refill":                   func(_ *Windowed, log *askers.Log) { log.Grants[0].Refill = 1 },
		"windows that begin earlier": func(l *Windowed, _ *askers.Log) { l.Wall = int64(500 * time.Millisecond) },
	} {
		for _, sliding := range []bool{false, true} {
			l, log := windowed(sliding)
			harm(l, log)
			f := Windows(l)
			require.False(t, f.OK, what)
			require.Len(t, f.Details, 1, what)
		}
	}
	l, log := windowed(true)
	log.Admitted = append(spends(500, 60), spends(1200, 70)...)
	require.False(t, Windows(l).OK, "three quarters of the window before still count")
	l.Sliding = false
	require.True(t, Windows(l).OK)
}

// What a lost leader may have granted is added.
func TestWindowsOfALostLeader(t *testing.T) {
	l, log := windowed(false)
	log.Admitted = append(log.Admitted, spends(600, 70)...)
	require.False(t, Windows(l).OK)
	l.Losses = []Loss{{From: 150 * ms, To: 250 * ms}}
	require.True(t, Windows(l).OK)
}
