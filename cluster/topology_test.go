package cluster

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/engine"
)

// While group 0 changes its leader, its clock on another node is late for a moment. That
// is no alarm, and a gap that stays is one.
func TestOnlyAGapThatStaysIsAnAlarm(t *testing.T) {
	var out bytes.Buffer
	g := &Group{log: slog.New(slog.NewTextHandler(&out, nil))}
	var a alarms
	now := time.Now()
	const far, near = engine.MaxSlew + 1, engine.MaxSlew
	pass := func(d time.Duration, serving bool, skew time.Duration) {
		for range d / refreshInterval {
			now = now.Add(refreshInterval)
			a.checkClock(g, serving, skew, now)
		}
	}
	pass(skewedFor, true, -far)
	pass(skewedFor, true, near)
	pass(skewedFor, true, far)
	pass(2*skewedFor, false, far)
	require.Empty(t, out.String())

	pass(2*skewedFor, true, -far)
	require.Equal(t, 1, strings.Count(out.String(), "level=ERROR"), out.String())
	require.Contains(t, out.String(), "wall_ahead_by=-1.000000001s")
	pass(skewedFor, true, near)
	require.Contains(t, out.String(), "the clock alarm is over")
	require.Equal(t, 2, strings.Count(out.String(), "\n"))
}
