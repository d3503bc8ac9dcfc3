package oracle

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/faults/history"
)

// local is n units that a node admitted without a leader.
func local(node uint8, n int32) history.Call {
	return history.Call{Start: 5 * ms, End: 6 * ms, Node: node, Cost: n, Outcome: history.Admitted, Local: true}
}

func TestShares(t *testing.T) {
	led := history.Call{Start: 5 * ms, End: 6 * ms, Node: 0, Cost: 90, Outcome: history.Admitted}
	for name, c := range map[string]struct {
		limit, left int32
		leader, ok  bool
		calls       []history.Call
	}{
		"each its share":              {90, 90, false, true, []history.Call{local(0, 30), local(1, 30), local(2, 30)}},
		"one more than its share":     {90, 90, false, false, []history.Call{local(0, 31)}},
		"in several calls":            {90, 90, false, false, []history.Call{local(0, 30), local(0, 1)}},
		"a share of what was left":    {90, 32, false, false, []history.Call{local(0, 11)}},
		"beside a leader":             {90, 90, true, true, []history.Call{led, local(1, 30)}},
		"all of it, without a leader": {90, 90, false, false, []history.Call{led, local(1, 30)}},
		"a small limit":               {2, 2, false, true, []history.Call{local(1, 2)}},
		"a small limit, twice":        {2, 2, false, false, []history.Call{local(1, 1), local(2, 1)}},
		"nothing":                     {90, 90, false, false, nil},
	} {
		h := one(fixedKey(c.limit), c.calls...)
		f := Shares(h, []Gap{{From: 0, To: 10 * ms, Voters: 3, Left: map[uint32]int64{0: int64(c.left)}, Leader: c.leader}})
		require.Equal(t, c.ok, f.OK, "%s: %v", name, f)
	}
}
