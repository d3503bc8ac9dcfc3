package oracle

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/faults/history"
)

// A question is charged once, and only if it was answered or may have been.
func TestGateways(t *testing.T) {
	f := func(want string, used int64, front string, outcomes ...history.Outcome) {
		t.Helper()
		var asked []history.Asked
		for i, o := range outcomes {
			asked = append(asked, history.Asked{Front: front, User: "u", Start: int64(10 + i), Outcome: o})
		}
		charged := func(a *history.Asked) bool { return a.Front == "Envoy" || a.Outcome == history.Admitted }
		got := Gateways(asked, 2, 0, charged, map[GatewayUser]int64{{front, "u"}: used})
		require.Equal(t, want == "", got.OK, "%v", got)
		if want != "" {
			require.Contains(t, got.String(), want)
		}
		require.True(t, Gateways(asked, 0, 100, charged, nil).OK, "all that was forgotten")
	}
	const yes, no, open, never = history.Admitted, history.Denied, history.Unknown, history.Refused
	f("", 2, "gateway", yes, yes, no, never)
	f("was admitted 3 times of 2", 3, "gateway", yes, yes, yes)
	f("was denied after 1 of 2", 1, "gateway", yes, no)
	f("", 1, "gateway", yes, open, no)
	f("", 2, "gateway", yes, open, no)
	f("holds 3 in the end, and 1 to 2 were charged", 3, "gateway", yes, open, no)
	f("holds 1 in the end, and 2 to 2 were charged", 1, "gateway", yes, yes)
	f("", 3, "Envoy", yes, yes, no) // which counts what it denies
	f("holds 2 in the end, and 3 to 3 were charged", 2, "Envoy", yes, yes, no)
	wrong := Gateways([]history.Asked{{Front: "Envoy", Wrong: "no such policy", Outcome: open}}, 2, -1, func(*history.Asked) bool { return true }, nil)
	require.False(t, wrong.OK)
}
