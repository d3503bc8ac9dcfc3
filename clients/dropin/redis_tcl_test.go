package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const tclReport = `Testing unit/type/incr
[ok]: INCR (3 ms)
[err]: INCR by 0 in tests/unit/type/incr.tcl
Expected '1' to be equal to '2'
[ignore]: Tag: needs:debug denied
[skip]: DECR
[ok]: INCR (1 ms)
[1/1 done]: unit/type/incr (4 seconds)
`

func TestReadTcl(t *testing.T) {
	res, err := readTcl("type/incr", []byte(tclReport))
	require.NoError(t, err)
	require.Equal(t, result{
		passed: []string{"type/incr: INCR", "type/incr: INCR (2)"}, failed: []string{"type/incr: INCR by 0"}, skipped: []string{"type/incr: DECR"},
	}, res)

	f := func(from, to, want string) {
		t.Helper()
		_, err := readTcl("type/incr", []byte(strings.Replace(tclReport, from, to, 1)))
		require.ErrorContains(t, err, want)
	}
	f("[1/1 done]: unit/type/incr (4 seconds)", "", "has not ended")
	f("[skip]: DECR", "[TIMEOUT]: clients state report follows.", "broke off")
	f(" in tests/unit/type/incr.tcl", "", "broke off")
}

// The lists are of units that their suite runs.
func TestTclUnits(t *testing.T) {
	for i := range suites {
		if s := &suites[i]; s.library == "Redis" {
			for _, a := range s.lists() {
				for _, name := range a.tests {
					unit, _, _ := strings.Cut(name, ": ")
					require.Contains(t, s.tests, unit, name)
				}
			}
		}
	}
}
