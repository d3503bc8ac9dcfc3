package partition

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/engine/algo"
)

func TestChargeCommandReadsBack(t *testing.T) {
	charges := []engine.Charge{
		{Key: []byte("a"), Limit: algo.Limit{Algorithm: algo.Leaky, Rounding: algo.Microsecond, Limit: 5, Period: 1e9, Burst: 7}, Units: 3},
		{Key: []byte(""), Limit: algo.Limit{Algorithm: algo.Fixed, Align: algo.First, Limit: 5, Period: 1e9}, Units: 9},
		{Key: []byte("c"), Limit: algo.Limit{Algorithm: algo.Counter, DB: 3}, Units: -2, Initial: -1, Deadline: 1e18, Known: engine.NoExpiry},
		{Key: []byte("d"), Limit: algo.Limit{Algorithm: algo.Counter}, Units: 1, Deadline: 1e18},
		{Key: []byte("@p:a"), Limit: algo.Limit{Algorithm: algo.PolicyFixed, Limit: 5, Period: 1e9, Resets: 65535, Scalings: 2}, Units: 3},
		{Key: []byte("@p:b"), Limit: algo.Limit{Algorithm: algo.PolicyCalendar, Limit: 5, Resets: 1, Scalings: 2}, Units: 3, Deadline: 1e18},
	}
	node, number, got, err := ParseCharges(chargeCommand("n1", 4, charges))
	require.NoError(t, err)
	require.Equal(t, "n1", node)
	require.EqualValues(t, 4, number)
	require.Equal(t, charges, got)
	for _, args := range [][]string{
		{"RL.CHARGE", "n1"},
		{"RL.CHARGE", "n1", "x"},
		{"RL.CHARGE", "n1", "1", "k"},
		{"RL.CHARGE", "n1", "+1", "k"},
		{"RL.CHARGE", "n1", "++1"},
		{"RL.CHARGE", "n1", "1", "k", "6", "0", "0", "0", "0", "0", "1"},
		{"RL.CHARGE", "n1", "1", "k", "0", "0", "0", "-1", "1", "1", "1"},
		{"RL.CHARGE", "n1", "+1", "k", "13", "0", "0", "9", "1000", "0", "1", "65536", "0"},
		{"RL.CHARGE", "n1", "+1", "k", "99", "", "", "", "", "", "", "", ""},
		{"RL.CHARGE", "n1", "+1", "k", "0", "0", "0", "-1", "1", "1", "1", "0", "0"},
		{"RL.CHARGE", "n1", "+1", "k", "0", "0", "0", "9", "0", "9", "1", "0", "0"},
		{"RL.CHARGE", "n1", "+1", "k", "0", "0", "0", "9", "1", "9", "-1", "0", "0"},
		{"RL.CHARGE", "n1", "+1", "k", "6", "0", "0", "0", "0", "0", "1", "0", "-1"},
	} {
		var raw [][]byte
		for _, a := range args {
			raw = append(raw, []byte(a))
		}
		_, _, _, err := ParseCharges(raw)
		require.Error(t, err, args)
	}
}

// Charges of limits only travel without the fields of counters.
func TestChargesOfLimitsAreShort(t *testing.T) {
	args := chargeCommand("n1", 4, []engine.Charge{
		{Key: []byte("a"), Limit: algo.Limit{Algorithm: algo.Leaky, Rounding: algo.Microsecond, Limit: 5, Period: 1e9, Burst: 7}, Units: 3},
	})
	var words []string
	for _, a := range args {
		words = append(words, string(a))
	}
	require.Equal(t, []string{"RL.CHARGE", "n1", "4", "a", "1", "2", "0", "5", "1000000000", "7", "3"}, words)
}
