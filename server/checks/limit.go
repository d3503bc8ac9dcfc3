package checks

import (
	"time"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/policy"
)

// EngineLimit is a limit of a policy, with some of its numbers, as the engine has
// it.
func EngineLimit(l *policy.Limit, n *policy.Numbers) engine.Limit {
	limit := engine.Limit{
		Algorithm: engine.Algorithm(l.Algorithm).OfPolicy(), Align: engine.Align(l.Align),
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
		limit.Algorithm, limit.Period = engine.PolicySlots, l.TTL
	}
	return limit
}

// Window is the window of a limit's calendar that contains the present, nil for a
// limit without one, or of no period.
func Window(l *policy.Limit, now int64) *engine.Window {
	if l.Calendar == nil {
		return nil
	}
	return (*engine.Window)(l.Calendar.Window(now))
}
