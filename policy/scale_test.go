package policy

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestScaledRates(t *testing.T) {
	f := func(rate string, percent int64, want string) {
		t.Helper()
		r, err := ParseRate(rate)
		require.NoError(t, err)
		require.Equal(t, want, (&scale{percent: percent}).rate(r, Token).String())
	}
	f("100/m burst 200", 50, "50/m burst 100")
	f("1/m", 1, "1/m")
	f("101/m burst 3", 50, "51/m burst 2")
	f("100/m", 1000, "1000/m")
	f("500000000/s", 1000, "500000000/s")
	require.Equal(t, int64(MaxUnits), percentOf(MaxUnits, 100))
	require.Equal(t, int64(MaxUnits)+1, percentOf(MaxUnits, 101))
	require.Equal(t, int64(MaxUnits)+1, percentOf(MaxUnits, 1000))
	require.Equal(t, int64(0), percentOf(0, 1000))
}
