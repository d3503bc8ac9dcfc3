package main

import (
	"github.com/headgate-io/headgate/server/checks"
	"github.com/headgate-io/headgate/server/web"
)

// policyMetrics returns the metrics of a limit of a policy. For a list it returns only
// counts of calls. A list has no units, so no call is near a limit.
func policyMetrics(n *checks.LimitCount) []web.Metric {
	of := func(m web.Metric) web.Metric { return m.With("policy", n.Policy).With("limit", n.Limit) }
	calls := func(outcome string, count uint64) web.Metric {
		return of(web.Counter("headgate_policy_calls_total", "Calls that a limit of a policy was asked about.", count)).With("outcome", outcome)
	}
	missing := "missing"
	if n.Limit == "" && n.Policy != "" { // the policy's lists: see checks.LimitCount
		missing = "none"
	}
	return []web.Metric{
		calls("allowed", n.Allowed), calls("denied", n.Denied), calls("penalty", n.Penalty), calls("shadow_denied", n.Shadow), calls("soft", n.Soft), calls(missing, n.Missing),
		of(web.Counter("headgate_policy_near_limit_total", "Calls that passed a limit of a policy and left less than a fifth of its units.", n.Near)),
		of(web.Counter("headgate_policy_cost_total", "Units of the calls that passed a limit of a policy.", n.Cost)),
	}
}
