package admin

import (
	"cmp"
	"slices"
	"strconv"
)

// LimitCount is how many calls a limit of a policy was asked about on a node, by outcome,
// since the node's start. Limit is "" for the lists of a policy. Policy is "" for the limits
// together that have no counts of their own.
type LimitCount struct {
	Policy  string `json:"policy"`
	Limit   string `json:"limit"`
	Allowed uint64 `json:"allowed"`
	Denied  uint64 `json:"denied"`
	Penalty uint64 `json:"penalty"`
	// Shadow and Soft count calls that passed although the limit would have denied them.
	Shadow  uint64 `json:"shadow_denied"`
	Soft    uint64 `json:"soft"`
	Missing uint64 `json:"missing"`
	Near    uint64 `json:"near_limit"`
	Cost    uint64 `json:"cost"`
}

// refused is the sort key of the counts: the calls that the limit has denied or would have.
func (n *LimitCount) refused() uint64 { return n.Denied + n.Penalty + n.Shadow + n.Soft }

// counts answers with the counts of limits of policies, those with most denials first.
func (a *API) counts(r *Request) (Answer, error) {
	values, err := r.query("policy", "count")
	if err != nil {
		return Answer{}, err
	}
	most := -1
	if given := values.Get("count"); given != "" {
		if most, err = strconv.Atoi(given); err != nil || most < 1 {
			return Answer{}, wrong("count must be a whole number of at least 1")
		}
	}
	list := a.view.Counts()
	if name := values.Get("policy"); name != "" {
		list = slices.DeleteFunc(list, func(n LimitCount) bool { return n.Policy != name })
	}
	slices.SortStableFunc(list, func(x, y LimitCount) int {
		return cmp.Or(cmp.Compare(y.refused(), x.refused()), cmp.Compare(y.Allowed, x.Allowed))
	})
	if most >= 0 {
		list = list[:min(most, len(list))]
	}
	return answer(struct {
		Limits []LimitCount `json:"limits"`
	}{list})
}
