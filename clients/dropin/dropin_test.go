package main

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/internal/subprocess"
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

func TestReadTAP(t *testing.T) {
	res, err := readTAP([]byte(`TAP version 13
# first
ok 1 - it counts
    not ok 1 - a part of the next
not ok 2 - it denies: at once
  ---
  message: no
  ...
ok 3 - elsewhere # SKIP no server
ok it ends
1..4
`))
	require.NoError(t, err)
	require.Equal(t, result{passed: []string{"it counts", "it ends"}, failed: []string{"it denies: at once"}, skipped: []string{"elsewhere"}}, res)

	res, err = readTAP([]byte("# " + strings.Repeat("x", 100_000) + "\nnot ok 1 - after a long line\n"))
	require.NoError(t, err)
	require.Equal(t, []string{"after a long line"}, res.failed)
	_, err = readTAP([]byte("sh: ruby: not found\n"))
	require.ErrorContains(t, err, "no test was run")
}

// What a machine does not have is told, and neither passed nor failed.
func TestNotRun(t *testing.T) {
	s := suite{library: "one", what: "its own", needs: []need{{"sh", []string{"sh", "-c", "true"}}, {"libnothing", []string{"sh", "-c", "exit 1"}}, {"gone", []string{"no-such-program"}}}}
	require.Equal(t, "libnothing, gone", s.missing())
	r := row{suite: &s, why: "needs " + s.missing()}
	var out strings.Builder
	require.NoError(t, r.run(&workshop{dir: t.TempDir(), log: io.Discard}, &out))
	require.Contains(t, out.String(), "not run: needs libnothing, gone")
	require.Contains(t, table([]row{r}), "| its own | not run: needs libnothing, gone | |\n")
}

// A suite that cannot be installed is an error of the run, and the others are
// run all the same.
func TestNotInstalled(t *testing.T) {
	broken := suite{library: "broken", version: "1", fetch: func(*workshop, *suite) error { return errors.New("no network") }}
	defer func(before []suite) { suites = before }(suites)
	suites = []suite{broken, {library: "fine", version: "1", fetch: func(*workshop, *suite) error { return nil },
		run: func(context.Context, *workshop, *suite, target) (result, error) {
			return result{passed: []string{"a"}}, nil
		}}}
	defer func(before []*server) { servers = before }(servers)
	nothing := func(string) (func() error, error) { return func() error { return nil }, nil }
	servers = []*server{{name: "Redis", start: nothing}, {name: "Headgate", start: nothing}}
	var out strings.Builder
	require.ErrorContains(t, run([]string{"-cache", t.TempDir()}, &out), "install broken: no network")
	require.Contains(t, out.String(), "| broken | 1 |  | not run: could not be installed | |\n")
	require.Contains(t, out.String(), "| fine | 1 |  | 1 of 1 | 1 of 1 |\n")
}

// Each suite names what its way of running needs.
func TestSuites(t *testing.T) {
	for _, s := range suites {
		require.NotEmpty(t, s.what, s.library)
		require.True(t, s.version != "" || len(s.needs) > 0, "%s: no version", s.library)
		if s.room != "" {
			_, err := rooms.ReadDir(s.room)
			require.NoError(t, err, s.library)
		}
		if contract := s.room != "" && s.what == contractOfOurs; contract {
			_, err := rooms.Open(s.room + "/" + s.tests[0])
			require.NoError(t, err, s.library)
		}
	}
}

// A port that suites need and somebody has is told before anything is installed.
func TestBusy(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	_, taken, _ := net.SplitHostPort(l.Addr().String())
	free, err := subprocess.Addrs("127.0.0.1", 1)
	require.NoError(t, err)
	_, other, _ := net.SplitHostPort(free[0])
	defer func(before []suite) { suites = before }(suites)
	suites = []suite{{library: "fine", port: other}, {library: "one", port: other, ports: []string{taken}}, {library: "two", port: taken}}
	err = run([]string{"-cache", t.TempDir()}, io.Discard)
	require.EqualError(t, err, "one needs port "+taken+": listen tcp 127.0.0.1:"+taken+": bind: address already in use")
}

func TestPublish(t *testing.T) {
	path := filepath.Join(t.TempDir(), "page.md")
	defer func(before []suite) { suites = before }(suites)
	suites = []suite{{library: "one", version: "v1.2", what: "its own"}, {library: "two", version: "3", what: "ours"}, {library: "three", version: "4", what: "ours"}, {library: "debian's", what: "ours", needs: []need{{"gone", []string{"no-such-program"}}}}}
	old := "| debian's | 1.5 | ours | 8 of 8 | 8 of 8 |\n" + "| two | 3 | ours | 4 of 4 | 4 of 4 |\n| three | 3.9 | ours | 5 of 5 | 5 of 5 |\n| gone | 1 | ours | 6 of 6 | 6 of 6 |\n| one | 1.2 | its own | 7 of 7 | 7 of 7 |\n"
	require.NoError(t, os.WriteFile(path, []byte("before\n"+resultsBegin+old+resultsEnd+"after\n"), 0o644))
	rows := []row{{suite: &suites[0], results: []result{
		{passed: []string{"a"}, failed: []string{"b"}}, {passed: []string{"a", "b"}},
	}}}
	require.NoError(t, publish(path, rows))
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Contains(t, string(text), "|\n| one | 1.2 | its own | **1 of 2** | 2 of 2 |\n| two | 3 | ours | 4 of 4 | 4 of 4 |\n", "what was not run stays, but not of another version")
	require.Regexp(t, `(?s)^before\n.*redis-server \d.*after\n$`, string(text))
	require.Contains(t, string(text), "| debian's | 1.5 | ours | 8 of 8 | 8 of 8 |\n", "what is not installed here stays")
	require.NotRegexp(t, "three|gone", string(text))
	require.NoError(t, publish(path, rows), "once more")
	again, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(text), string(again))
}

// Where a suite has some tries, a test has passed that passes once.
func TestTries(t *testing.T) {
	runs := 0
	s := suite{tries: 3, run: func(context.Context, *workshop, *suite, target) (result, error) {
		runs++
		return []result{
			{passed: []string{"a"}, failed: []string{"b", "c"}},
			{passed: []string{"b"}, failed: []string{"a", "c"}},
			{passed: []string{"b"}, failed: []string{"a", "c"}, skipped: []string{"d"}},
		}[runs-1], nil
	}}
	sv := &server{name: "Redis", start: func(string) (func() error, error) { return func() error { return nil }, nil }}
	res, err := s.against(nil, sv)
	require.NoError(t, err)
	require.Equal(t, result{passed: []string{"a", "b"}, failed: []string{"c"}, skipped: []string{"d"}}, res)
	require.Equal(t, 3, runs)

	runs, s.tries = 0, 0
	res, err = s.against(nil, sv)
	require.NoError(t, err)
	require.Equal(t, []string{"b", "c"}, res.failed, "one try")
}

func TestVersionHere(t *testing.T) {
	f := func(version, want string) { require.Equal(t, want, (&suite{version: version}).versionHere()) }
	f("v1.2.3", "1.2.3")
	f("4.0", "4.0")
	f("v1.4.1-0.20260122083618-3fb702589d36", "of 2026-01-22")
}
