package engine_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/engine"
)

func TestNumberAdd(t *testing.T) {
	f := func(a, b, want string) {
		t.Helper()
		v, err := engine.ParseLongDouble([]byte(a))
		require.NoError(t, err)
		by, err := engine.ParseLongDouble([]byte(b))
		require.NoError(t, err)
		sum, err := v.Add(by)
		if want == "" {
			require.ErrorIs(t, err, engine.ErrNotFinite)
			return
		}
		require.NoError(t, err)
		require.Equal(t, want, sum.String())
	}
	f("10.5", "0.1", "10.6")
	f("5000", "200", "5200")
	f("0.1", "0.2", "0.3")
	f("1e17", "0.5", "100000000000000000.5")
	f("3", "-3", "0")
	f("0x10", "-0X.8p1", "15")
	f("inf", "1", "")
	f("1", "-inf", "")
	f("inf", "-inf", "")
	f("1.1e4932", "1.1e4932", "")
	f("-1.1e4932", "-1.1e4932", "")
	for _, bad := range []string{"0x", "0x_1", "--0x1", "0x1p99999999999", "0x1p16384", "0x1p-20000", "0b1", "0o7", "0xg", "x1", ""} {
		_, err := engine.ParseLongDouble([]byte(bad))
		require.ErrorIs(t, err, engine.ErrNotFloat, bad)
	}
}
