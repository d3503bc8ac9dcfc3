package main

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/internal/hgtest"
	"github.com/headgate-io/headgate/internal/respclient"
)

func TestMain(m *testing.M) {
	code := m.Run()
	hgtest.Clean()
	os.Exit(code)
}

func TestExpression(t *testing.T) {
	f := func(name, test string) bool { return regexp.MustCompile(expression(name)).MatchString(test) }
	require.True(t, f("tests test_geo*", "tests test_geoadd[RESP3]"))
	require.True(t, f("*[huge]", "test[a] [huge]"))
	require.False(t, f("test_geo", "test_geoadd"))
	require.False(t, f("add", "test_geoadd"))
}

// A list of exceptions is wrong in what it leaves out, in what passes, and in what is
// no test.
func TestCheck(t *testing.T) {
	f := func(s suite, redis, headgate result, want ...string) {
		t.Helper()
		s.library, s.what = "lib", "its own"
		err := (&row{suite: &s, results: []result{redis, headgate}}).check()
		if len(want) == 0 {
			require.NoError(t, err)
			return
		}
		require.EqualError(t, err, "lib, its own: "+strings.Join(want, "\nlib, its own: "))
	}
	listed := func(names ...string) suite { return suite{allowed: []allowance{{"too large", names}}} }
	left := suite{notRun: []allowance{{"too slow", []string{"c*"}}}}
	passed := func(tests ...string) result { return result{passed: tests} }

	f(listed(), passed("a"), passed("a", "b"))
	f(listed(), result{failed: []string{"a"}}, result{failed: []string{"a"}})
	f(listed(), passed("a", "b"), passed("a", "c"), `"b" fails against Headgate alone, and is not allowed to`)
	f(listed(), result{skipped: []string{"new"}}, result{failed: []string{"new"}}, `"new" fails against Headgate alone, and is not allowed to`)
	f(listed("b*"), passed("a", "b1", "b1 (2)"), result{passed: []string{"a"}, failed: []string{"b1", "b1 (2)"}})
	f(listed("b"), passed("a", "b", "b (2)"), passed("a"))
	f(listed("b*"), passed("b1", "b2"), result{passed: []string{"b2"}, failed: []string{"b1"}}, `"b2" is allowed to fail, and passes`)
	f(listed("a", "b"), passed("a"), result{failed: []string{"a"}}, `"b" is allowed to fail, and is no test`)
	f(listed("b"), passed("a"), passed("a"), `"b" is allowed to fail, and is no test`)
	f(left, passed("a", "c1", "c2"), result{passed: []string{"a"}, skipped: []string{"c1", "c2"}})
	f(left, passed("a", "c1"), passed("a", "c1"), `"c1" is allowed to fail, and passes`)

	// What Redis fails, too, is no difference, unless Redis does not have it at all.
	alone := listed("b")
	alone.alone = true
	f(alone, result{failed: []string{"a", "b"}}, result{passed: []string{"a"}, failed: []string{"b"}})
	f(alone, result{failed: []string{"a", "b"}}, result{failed: []string{"a", "b"}}, `"a" fails against Headgate alone, and is not allowed to`)
}

// Each reason is a sentence, and no name is listed twice.
func TestReasons(t *testing.T) {
	for i := range suites {
		var names []string
		for _, a := range suites[i].lists() {
			require.Regexp(t, "^[A-Z`].*\\.$", a.why)
			require.NotEmpty(t, a.tests, a.why)
			names = append(names, a.tests...)
		}
		slices.Sort(names)
		require.Len(t, slices.Compact(slices.Clone(names)), len(names), suites[i].what)
	}
}

// Tests that are not run for the want of a command are run once it is there.
func TestAbsentCommands(t *testing.T) {
	s, err := hgtest.Start(hgtest.Config{})
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Stop()) }()
	list, err := respclient.Do(s.Addr, time.Second, "COMMAND", "LIST")
	require.NoError(t, err)
	var there []string
	for _, name := range list.Elems {
		there = append(there, name.Str)
	}
	require.Contains(t, there, "client|list")
	for _, name := range tclAbsent {
		require.NotContains(t, there, name)
	}
}

// TestDifferencesDocumented compares the reasons that docs/drop-in-tests.md lists with
// those of the suites.
func TestDifferencesDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/drop-in-tests.md")
	require.NoError(t, err)
	_, results, _ := strings.Cut(string(page), resultsBegin)
	results, _, _ = strings.Cut(results, resultsEnd)
	_, list, _ := strings.Cut(results, "\n\nTests fail")
	require.Equal(t, differences()+"\n", "Tests fail"+list)
}
