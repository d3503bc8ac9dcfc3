package scenario

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/faults/oracle"
)

// Every scenario that offers calls says what it may cost, in each of its modes.
func TestEveryScenarioHasBoundsOfLiveness(t *testing.T) {
	for i := range All {
		s := &All[i]
		if s.Rate == 0 {
			continue
		}
		require.NotEmpty(t, s.Live.Why, s.Name)
		for _, mode := range s.Modes {
			b := s.Live.of(mode)
			require.NotZero(t, b.Refused, "%s, %s", s.Name, mode)
			require.Less(t, b.Refused, .5, "half of all calls refused must not pass: %s, %s", s.Name, mode)
			require.NotZero(t, b.Silence, "%s, %s", s.Name, mode)
		}
		require.True(t, s.Brief == "" || s.supports(s.Brief), s.Name)
	}
}

// The row of a failed run names the check and its first violation.
func TestTheRowOfAFailureSaysWhy(t *testing.T) {
	r := &Run{Scenario: &Scenario{Name: "calm"}, findings: []oracle.Finding{
		{Check: "budgets", OK: true, Text: "nothing"},
		{Check: "live", Text: "of 9 calls", Details: []string{"late: 15 % | above 10 %", "unknown: 3 %"}},
		{Check: "tables", Text: "2 differ"},
	}}
	require.Contains(t, (&Report{run: r}).Row(), `| **fail** (live: late: 15 % \| above 10 %; tables: 2 differ; [why](reliability.md#what-failed-and-why)) |`)
}
