package main

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMatches(t *testing.T) {
	require.True(t, matches("tests test_geo*", "tests test_geoadd[RESP3]"))
	require.True(t, matches("*[huge]", "test[a] [huge]"))
	require.False(t, matches("test_geo", "test_geoadd"))
	require.False(t, matches("add", "test_geoadd"))
}

// A difference that has gone is told, so that the list says what is so.
func TestStale(t *testing.T) {
	s := suite{library: "one", what: "its own", allowed: []allowance{{"too large", []string{"big*", "huge"}}}}
	r := row{suite: &s, results: []result{{passed: []string{"big1", "huge"}}, {failed: []string{"big1"}, passed: []string{"huge"}}}}
	require.False(t, r.worse())
	errs := r.stale()
	require.Len(t, errs, 1)
	require.EqualError(t, errs[0], `one, its own: "huge" is allowed to fail, and no such test fails`)
	require.Empty(t, (&row{suite: &s, why: "needs ruby"}).stale())
}

// What Redis fails too is no difference, unless Redis does not have it at all.
func TestWorseAlone(t *testing.T) {
	s := suite{allowed: []allowance{{"another error", []string{"error"}}}}
	r := row{suite: &s, results: []result{{failed: []string{"a", "error"}, skipped: []string{"new"}}, {failed: []string{"a", "error"}}}}
	require.False(t, r.worse())
	s.alone = true
	require.True(t, r.worse())
	r.results[1] = result{passed: []string{"a"}, failed: []string{"error"}}
	require.False(t, r.worse())
	s.alone = false
	r.results[1].failed = append(r.results[1].failed, "new")
	require.True(t, r.worse(), "Redis skips it, since it is of a later version")
}

// TestDifferencesDocumented compares the reasons that docs/drop-in.md lists with
// those of the suites.
func TestDifferencesDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/drop-in.md")
	require.NoError(t, err)
	_, results, _ := strings.Cut(string(page), resultsBegin)
	results, _, _ = strings.Cut(results, resultsEnd)
	_, list, _ := strings.Cut(results, "\n\nTests fail")
	require.Equal(t, differences()+"\n", "Tests fail"+list)
}
