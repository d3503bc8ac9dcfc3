package checks

import (
	"time"

	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/policy"
)

// algorithms are the engine's algorithms of policies, by the policy's.
var algorithms = [...]algo.Algorithm{
	policy.Token:      algo.PolicyToken,
	policy.Leaky:      algo.PolicyLeaky,
	policy.Fixed:      algo.PolicyFixed,
	policy.Sliding:    algo.PolicySliding,
	policy.Log:        algo.PolicyLog,
	policy.Calendar:   algo.PolicyCalendar,
	policy.Concurrent: algo.PolicySlots,
}

// EngineLimit converts a limit of a policy, with some of its numbers, to the engine's.
func EngineLimit(l *policy.Limit, n *policy.Numbers) algo.Limit {
	limit := algo.Limit{
		Algorithm: algorithms[l.Algorithm], Align: algo.Align(l.Align),
		Limit: n.Rate.Amount, Period: n.Rate.Period, Burst: n.Rate.Burst,
		Resets: uint16(l.Epoch.Reset), Scalings: uint16(l.Epoch.Proportion),
	}
	if n.Rate.Kind != policy.Limited { // blocked: no wait ends that
		limit.Limit, limit.Period, limit.Burst = 0, int64(time.Second), 0
	}
	switch l.Algorithm {
	case policy.Calendar:
		limit.Period = 0
	case policy.Concurrent:
		limit.Period = l.TTL
	}
	return limit
}

// Window returns the window of a limit's calendar that contains now. It is nil for a limit
// without a calendar, and outside of its periods.
func Window(l *policy.Limit, now int64) *algo.Window {
	if l.Calendar == nil {
		return nil
	}
	return (*algo.Window)(l.Calendar.Window(now))
}
