package scenario

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/faults/history"
	"github.com/headgate-io/headgate/faults/load"
	"github.com/headgate-io/headgate/faults/oracle"
)

// Surviving nodes must admit every question by either front, and 99 of 100 in time. The page says how many were asked,
// and how long they took. What a stopped node was asked counts nowhere.
func TestLocalGateways(t *testing.T) {
	const ms = int64(time.Millisecond)
	f := func(ok bool, row string, change func(of []history.Asked)) {
		t.Helper()
		r := &Run{Scenario: &Scenario{Name: "s"}, gateways: new(gateways), outages: []oracle.Outage{{Node: 2, From: 0, To: 100 * ms}}}
		r.Mode = Async
		for _, front := range []string{load.ByRoutes, load.ByDescriptors} {
			of := make([]history.Asked, 200)
			for i := range of {
				of[i] = history.Asked{Front: front, Outcome: history.Admitted, Start: 10 * ms, End: 12 * ms}
			}
			of[0] = history.Asked{Front: front, Outcome: history.Refused, Node: 2, Start: 10 * ms, End: 900 * ms}
			change(of)
			r.gateways.all = append(r.gateways.all, of...)
		}
		r.judgeLocalGateways(150 * time.Millisecond)
		require.Len(t, r.findings, 2)
		for _, finding := range r.findings {
			require.Equal(t, ok, finding.OK, "%v", finding)
		}
		require.Equal(t, row, (&Report{run: r}).Fronts())
	}
	late := func(n int) func([]history.Asked) {
		return func(of []history.Asked) {
			for i := range n {
				of[1+i].End = 200 * ms
			}
		}
	}
	f(true, "| s | async | 199 | 100.00 % | 2.0 / 2.0 ms | 199 | 100.00 % | 2.0 / 2.0 ms |\n", late(0))
	f(true, "| s | async | 199 | 100.00 % | 2.0 / 190.0 ms | 199 | 100.00 % | 2.0 / 190.0 ms |\n", late(1))
	f(false, "| s | async | 199 | 100.00 % | 190.0 / 190.0 ms | 199 | 100.00 % | 190.0 / 190.0 ms |\n", late(3))
	f(false, "| s | async | 199 | 99.50 % | 2.0 / 2.0 ms | 199 | 99.50 % | 2.0 / 2.0 ms |\n", func(of []history.Asked) { of[1].Outcome = history.Refused })
	f(false, "| s | async | 199 | 100.00 % | 2.0 / 2.0 ms | 199 | 100.00 % | 2.0 / 2.0 ms |\n", func(of []history.Asked) { of[1].Outcome = history.Denied })
	f(false, "| s | async | 0 | 0 | | 0 | 0 | |\n", func(of []history.Asked) {
		for i := range of {
			of[i].Node = 2
		}
	})
	require.Empty(t, (&Report{run: &Run{Scenario: &Scenario{}}}).Fronts(), "nobody asked")
}
