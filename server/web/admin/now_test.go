package admin

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Rates are taken since a reading that is at least a second old, and without counts from before
// a reset of the statistics.
func TestRates(t *testing.T) {
	r, start := new(rates), time.Unix(1_800_000_000, 0)
	at := func(ms int, commands, denied uint64) *Rates {
		return r.of(&Now{Commands: commands, Denied: denied}, start.Add(time.Duration(ms)*time.Millisecond))
	}
	require.Nil(t, at(0, 100, 10), "nothing was read before")
	require.Nil(t, at(500, 200, 20), "nor a second ago")
	require.Equal(t, &Rates{Over: 2000, Commands: 200, Denied: 5}, at(2000, 500, 20))
	require.Equal(t, &Rates{Over: 2500, Commands: 200, Denied: 4}, at(2500, 600, 20), "the first reading still")
	require.Equal(t, &Rates{Over: 2000, Commands: 50, Denied: 0}, at(4000, 600, 20))
	require.Equal(t, &Rates{Over: 2000, Commands: 15, Denied: 1}, at(6000, 30, 22), "CONFIG RESETSTAT")
}
