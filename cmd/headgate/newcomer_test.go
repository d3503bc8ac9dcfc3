package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// For an unknown name in a command line, a file or the environment, the error suggests
// a near one, or says where all are listed.
func TestUnknownNamesSuggestAKnownOne(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "headgate.yaml")
	require.NoError(t, os.WriteFile(file, []byte("max_memory: 64mb\nxyzzy: 1\n"), 0o600))
	for _, c := range []struct {
		args []string
		env  string
		want []string
	}{
		{[]string{"serve", "--maxmemroy=64mb"}, "", []string{`headgate: unknown flag: --maxmemroy, did you mean "--maxmemory"?`}},
		{[]string{"serve", "--http_listen=:1"}, "", []string{`unknown flag: --http_listen, did you mean "--http-listen"?`}},
		{[]string{"check-config", "--data-dri=/x"}, "", []string{`did you mean "--data-dir"?`}},
		{[]string{"--maxmemroy=64mb"}, "", []string{`did you mean "--maxmemory"?`}},
		{[]string{"cluster", "status", "--tiemout=1s"}, "", []string{`did you mean "--timeout"?`}},
		{[]string{"copy", "--form=redis://127.0.0.1:1"}, "", []string{`did you mean "--from"?`}},
		{[]string{"serve", "--xyzzy"}, "", []string{"unknown flag: --xyzzy; headgate serve --help-all lists the flags"}},
		{[]string{"copy", "--xyzzy"}, "", []string{"unknown flag: --xyzzy; headgate copy --help lists the flags"}},
		{[]string{"serve", "--config", file}, "", []string{
			file + `:1: max_memory: unknown key, did you mean "maxmemory"?`,
			file + ":2: xyzzy: unknown key; headgate serve --help-all lists the parameters",
		}},
		{[]string{"serve"}, "HEADGATE_MAXMEMROY=64mb", []string{`environment HEADGATE_MAXMEMROY: unknown variable, did you mean "HEADGATE_MAXMEMORY"?`}},
		{[]string{"serve"}, "HEADGATE_XYZZY=1", []string{"environment HEADGATE_XYZZY: unknown variable; headgate serve --help-all lists the parameters"}},
		{[]string{"sevre"}, "", []string{`unknown command "sevre" for "headgate", did you mean "serve"?`}},
		{[]string{"polcy", "check", "--json"}, "", []string{`unknown command "polcy" for "headgate", did you mean "policy"?`}},
		{[]string{"cluster", "statsu"}, "", []string{`unknown command "statsu" for "headgate cluster", did you mean "status"?`}},
	} {
		cmd := command(t, c.args...)
		if c.env != "" {
			cmd.Env = append(cmd.Env, c.env)
		}
		stderr := fails(t, cmd)
		for _, want := range c.want {
			require.Contains(t, stderr, want, "%v %s", c.args, c.env)
		}
		require.Len(t, strings.Split(strings.TrimSpace(stderr), "\n"), len(c.want), "%v: one line each: %s", c.args, stderr)
	}
}

// The help of serve shows what a new user decides about, and where the rest is.
func TestHelpShowsWhatMattersFirst(t *testing.T) {
	t.Parallel()
	for _, verb := range []string{"serve", "check-config"} {
		out, err := command(t, verb, "--help").Output()
		require.NoError(t, err)
		for _, name := range []string{"config", "listen", "http-listen", "requirepass", "maxmemory", "policies", "data-dir"} {
			require.Contains(t, string(out), " --"+name+" ", verb)
		}
		require.Contains(t, string(out), "headgate "+verb+" --help-all lists the other parameters, by section.")
		require.NotContains(t, string(out), "--slowlog-max-len")
		require.Less(t, strings.Count(string(out), "\n"), 40, "a screen")

		out, err = command(t, verb, "--help-all").Output()
		require.NoError(t, err)
		for _, want := range []string{"Network:\n", "Durability and cluster:\n", "--slowlog-max-len", " --listen "} {
			require.Contains(t, string(out), want, verb)
		}
	}
	out, err := command(t, "--help-all").Output()
	require.NoError(t, err)
	require.Contains(t, string(out), "--slowlog-max-len")
}

// Memory is shown in units that a person reads, also where it was given as a share.
func TestMaxmemoryIsReadable(t *testing.T) {
	t.Parallel()
	p := start(t, "--maxmemory=1500mb")
	require.Contains(t, p.stderr.String(), `"maxmemory":"1.5 GiB"`)
	p = start(t, "--maxmemory=0")
	require.Contains(t, p.stderr.String(), `"maxmemory":"no limit"`)

	out, err := command(t, "check-config", "--maxmemory=50%").Output()
	require.NoError(t, err)
	require.Regexp(t, `(?m)^maxmemory: 50% +# [0-9.]+ [MGT]iB, flag --maxmemory$`, string(out))
	require.Regexp(t, `(?m)^# maxmemory-clients: auto +# [0-9.]+ [MGT]iB$`, string(out))
	out, err = command(t, "check-config", "--maxmemory=5000000000").Output()
	require.NoError(t, err)
	require.Regexp(t, `(?m)^maxmemory: 5000000000 +# 4.7 GiB, flag --maxmemory$`, string(out))
}

func TestDataDirThatIsAFile(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "data")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	for _, args := range [][]string{
		{"serve", "--listen=127.0.0.1:0", "--http-listen=127.0.0.1:0", "--peer-listen=127.0.0.1:0"}, {"check-config"}, {"cluster", "recover"}, {"cluster", "status"},
	} {
		require.Equal(t, "headgate: data-dir "+file+" is a file: name a directory, which is made if it is missing\n",
			fails(t, command(t, append(args, "--data-dir", file)...)), "%v", args)
	}
}

func TestVersionAsJSON(t *testing.T) {
	t.Parallel()
	out, err := command(t, "version", "--json").Output()
	require.NoError(t, err)
	var fields map[string]any
	require.NoError(t, json.Unmarshal(out, &fields))
	require.Equal(t, "v0.0.0-test", fields["version"])
	require.Equal(t, runtime.Version(), fields["go"])
	require.GreaterOrEqual(t, fields["feature_level"], 1.0)
	require.Equal(t, "0123abc", fields["commit"])
	require.Len(t, fields, 4)
}

// The help of the two commands says what a newcomer looks for there.
func TestHelpOfCopyAndCheckConfig(t *testing.T) {
	t.Parallel()
	out, err := command(t, "copy", "--help").Output()
	require.NoError(t, err)
	require.Contains(t, string(out), "headgate copy --from redis://127.0.0.1:7379 --to redis://127.0.0.1:6379 --match 'rl:*' --replace   # back\n")
	out, err = command(t, "check-config", "--help").Output()
	require.NoError(t, err)
	require.Contains(t, string(out), "check-config --data-dir /var/lib/headgate > headgate.yaml\n")
}
