package oracle

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/faults/history"
)

// Each bill is charged once, and says one thing.
func TestBills(t *testing.T) {
	f := func(want string, used int64, bills ...history.Bill) {
		t.Helper()
		for i := range bills {
			bills[i].User, bills[i].Start = "u", int64(10+i)
		}
		got := Bills(bills, 10, 0, map[string]Billed{"u": {"log": used}})
		require.Equal(t, want == "", got.OK, "%v", got)
		if want != "" {
			require.Contains(t, got.String(), want)
		}
		require.True(t, Bills(bills, 1, 100, map[string]Billed{"u": {"log": used}}).OK, "all that was forgotten")
	}
	check := history.Bill{Outcome: history.Admitted, Cost: 3}
	held := history.Bill{Outcome: history.Admitted, Cost: 3, Holds: true, Settled: history.Admitted, Final: 1}
	over := history.Bill{Outcome: history.Admitted, Cost: 3, Holds: true, Settled: history.Admitted, Final: 20}
	f("", 3, check)
	f("holds 6 in the end, and its bills are 3 to 3", 6, check)
	f("holds 0 in the end", 0, check)
	f("", 1, held)
	f("holds 3 in the end, and its bills are 1 to 1", 3, held)
	f("", 23, check, over)
	f("was admitted 12 units of 10", 12, check, check, check, check)

	// What has no answer may be charged or not.
	lost, open, denied := check, held, check
	lost.Outcome, open.Settled, denied.Outcome = history.Unknown, history.Unknown, history.Denied
	f("", 0, lost, denied)
	f("", 3, lost, denied)
	f("holds 6", 6, lost, denied)
	f("", 1, open)
	f("", 3, open)
	f("holds 4 in the end, and its bills are 1 to 3", 4, open)
	open.Settled = history.Refused
	f("holds 1", 1, open)

	differs := check
	differs.Differs = "another answer"
	f("another answer", 3, differs)
}
