package main

import (
	"regexp"
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

// A list is wrong in what it leaves out, in what passes, and in what is no test.
func TestTclListIsExact(t *testing.T) {
	reason := &tclReason{why: "so"}
	list := func(tests ...string) (list []tclEntry) {
		for _, test := range tests {
			list = append(list, tclEntry{reason, test})
		}
		return list
	}
	ran := result{passed: []string{"u: A"}, failed: []string{"u: B", "u: B (2)", "u: C one"}, skipped: []string{"u: C two"}}
	require.Empty(t, wrongOf("u", list("B", "/^C "), ran))
	require.Equal(t, []string{"u: B: it fails, and is not listed", "u: B (2): it fails, and is not listed"}, wrongOf("u", list("/^C "), ran))
	require.Equal(t, []string{"u: A: it passes, and is listed"}, wrongOf("u", list("A", "B", "/^C "), ran))
	require.Equal(t, []string{"u: D is listed, and is no test"}, wrongOf("u", list("B", "/^C ", "D"), ran))

	r := row{suite: &suite{listed: true}, results: []result{{passed: []string{"u: A", "u: B"}}, {passed: []string{"u: A"}, failed: []string{"u: B"}}}}
	require.False(t, r.worse())
	r.results[1].wrong = []string{"u: A: it passes, and is listed"}
	require.True(t, r.worse())
}

// Each reason is a sentence, of tests in units that are run.
func TestTclReasons(t *testing.T) {
	units := map[string]bool{}
	for _, s := range suites {
		if s.listed {
			for _, unit := range s.tests {
				units[unit] = true
			}
		}
	}
	require.NotEmpty(t, units)
	for _, r := range tclReasons {
		require.Regexp(t, `^[A-Za-z].*\.$`, r.why)
		require.False(t, r.harms && r.absent != nil, r.why)
		for unit, tests := range r.tests {
			require.True(t, units[unit], unit)
			require.NotEmpty(t, tests, r.why)
			for _, test := range tests {
				if pattern, ok := strings.CutPrefix(test, "/"); ok {
					_, err := regexp.Compile(pattern)
					require.NoError(t, err)
				}
			}
		}
	}
}
