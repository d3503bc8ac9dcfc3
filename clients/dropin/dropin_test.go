package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReadGo(t *testing.T) {
	res, err := readGo([]byte(`{"Action":"start","Package":"a/b"}
{"Action":"run","Package":"a/b","Test":"TestOne"}
{"Action":"output","Package":"a/b","Test":"TestOne","Output":"--- PASS"}
{"Action":"pass","Package":"a/b","Test":"TestOne","Elapsed":0.1}
{"Action":"fail","Package":"a/b","Test":"TestTwo/part"}
{"Action":"fail","Package":"a/b","Test":"TestTwo"}
{"Action":"skip","Package":"a/b","Test":"TestThree"}
{"Action":"fail","Package":"a/b"}
`))
	require.NoError(t, err)
	require.Equal(t, result{passed: []string{"b TestOne"}, failed: []string{"b TestTwo"}, skipped: []string{"b TestThree"}}, res)
}

func TestReadJUnit(t *testing.T) {
	res, err := readJUnit([]byte(`<?xml version="1.0"?><testsuites><testsuite name="pytest">
<testcase classname="tests.test_strategy.TestWindow" name="test_one" time="0.1" />
<testcase classname="test" name="two &amp; a half"><failure type="x">text</failure></testcase>
<testcase name="three"><error message="no server">text</error></testcase>
<testcase classname="a" name="four"><skipped type="pytest.skip"/></testcase>
<testcase name="five"/><testcase name="five"/>
</testsuite></testsuites>`))
	require.NoError(t, err)
	require.Equal(t, result{passed: []string{"tests.test_strategy.TestWindow test_one", "five", "five (2)"}, failed: []string{"two & a half", "three"}, skipped: []string{"a four"}}, res)

	_, err = readJUnit([]byte("<testsuites></testsuites>"))
	require.ErrorContains(t, err, "no test was run", "a suite that selects nothing has not passed")
}

// Headgate may pass what Redis fails, but not the other way round.
func TestWorse(t *testing.T) {
	rowOf := func(redis, headgate []string) *row {
		return &row{results: []result{{passed: redis}, {passed: headgate}}}
	}
	require.False(t, rowOf([]string{"a"}, []string{"a", "b"}).worse())
	require.True(t, rowOf([]string{"a", "b"}, []string{"a", "c"}).worse())
}

func TestPublish(t *testing.T) {
	path := filepath.Join(t.TempDir(), "page.md")
	require.NoError(t, os.WriteFile(path, []byte("before\n"+resultsBegin+"old\n"+resultsEnd+"after\n"), 0o644))
	rows := []row{{suite: &suite{library: "one", version: "v1.2", what: "its own"}, results: []result{
		{passed: []string{"a"}, failed: []string{"b"}}, {passed: []string{"a", "b"}},
	}}}
	require.NoError(t, publish(path, rows))
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Contains(t, string(text), "| one | 1.2 | its own | **1 of 2** | 2 of 2 |\n")
	require.Regexp(t, `(?s)^before\n.*redis-server \d.*after\n$`, string(text))
	require.NotContains(t, string(text), "old")
	require.NoError(t, publish(path, rows), "once more")
}
