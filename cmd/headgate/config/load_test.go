package config

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// load resolves a configuration from a file's text, an environment and flags.
// The file is called headgate.yaml, relative to the working directory.
func load(t *testing.T, yaml string, environ []string, args ...string) (Loaded, error) {
	t.Helper()
	t.Chdir(t.TempDir())
	require.NoError(t, os.WriteFile("headgate.yaml", []byte(yaml), 0o600))
	fs := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	AddFlags(fs)
	if err := fs.Parse(append([]string{"--config", "headgate.yaml"}, args...)); err != nil {
		return Loaded{}, err
	}
	return Load(fs, environ)
}

func TestDefaultsArePromised(t *testing.T) {
	l, err := load(t, "", nil)
	require.NoError(t, err)
	require.Equal(t, "127.0.0.1:7379", l.Listen)
	require.Equal(t, "127.0.0.1:7380", l.HTTPListen)
	require.Equal(t, 10_000, l.MaxClients)
	require.Equal(t, 5*time.Second, l.ShutdownTimeout)
	require.Equal(t, EvictReplenished, l.MaxMemoryPolicy)
	require.Equal(t, TotalMemory()/100*60, l.MaxMemory)
	require.True(t, l.ProtectedMode)
	require.Empty(t, l.Sources)
}

func TestEveryParameterIsComplete(t *testing.T) {
	seen := map[string]bool{}
	for _, a := range aliases {
		seen[a.name] = true
	}
	for _, p := range Params {
		require.False(t, seen[p.Name], "%s: defined twice", p.Name)
		seen[p.Name] = true
		require.NotEmpty(t, p.Section, p.Name)
		require.Regexp(t, `^[A-Z].*\.$`, p.Doc, "%s: the doc is a sentence", p.Name)
		require.Regexp(t, `^[a-z][a-z0-9-]*$`, p.Name)
		var c Config
		require.NoError(t, p.Value(&c).Set(p.Default), p.Name)
		require.NotEmpty(t, p.Value(&c).Allowed(), p.Name)
		require.NotEmpty(t, p.Value(&c).Type(), p.Name)
	}
}

func TestPrecedence(t *testing.T) {
	l, err := load(t, "maxclients: 1\ntimeout: 1\nshards: 1\n",
		[]string{"HEADGATE_MAXCLIENTS=2", "HEADGATE_TIMEOUT=2"}, "--maxclients", "3")
	require.NoError(t, err)
	require.Equal(t, 3, l.MaxClients)
	require.Equal(t, 2*time.Second, l.Timeout)
	require.Equal(t, 1, l.Shards)
	require.Equal(t, map[string]string{
		"maxclients": "flag --maxclients", "timeout": "environment HEADGATE_TIMEOUT", "shards": "headgate.yaml:3",
	}, l.Sources)
}

func TestFileIsNamedByEnvironmentOrFlag(t *testing.T) {
	t.Chdir(t.TempDir())
	require.NoError(t, os.WriteFile("a.yaml", []byte("maxclients: 7"), 0o600))
	require.NoError(t, os.WriteFile("b.yaml", []byte("maxclients: 8"), 0o600))
	fs := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	AddFlags(fs)
	l, err := Load(fs, []string{"HEADGATE_CONFIG=a.yaml"})
	require.NoError(t, err)
	require.Equal(t, 7, l.MaxClients)
	require.NoError(t, fs.Parse([]string{"--config=b.yaml"}))
	l, err = Load(fs, []string{"HEADGATE_CONFIG=a.yaml"})
	require.NoError(t, err)
	require.Equal(t, 8, l.MaxClients)
	_, err = Load(fs, []string{"HEADGATE_CONFIG=a.yaml", "HEADGATE_MAXCLIENTS=x"})
	require.Error(t, err)
	require.NoError(t, fs.Parse([]string{"--config=missing.yaml"}))
	_, err = Load(fs, nil)
	require.ErrorIs(t, err, os.ErrNotExist)
	require.ErrorContains(t, err, "missing.yaml")
}

func TestYAMLScalarsAreReadAsWritten(t *testing.T) {
	l, err := load(t, "# comment\nprotected-mode: no\nrequirepass: 0x10\nunixsocket: /tmp/s\nunixsocketperm: 0770\nmaxmemory: 64mb\npprof: true\nhttp-listen: \"\"\n", nil)
	require.NoError(t, err)
	require.False(t, l.ProtectedMode)
	require.Equal(t, "0x10", l.RequirePass)
	require.EqualValues(t, 0o770, l.UnixSocketPerm)
	require.EqualValues(t, 64*mib, l.MaxMemory)
	require.True(t, l.Pprof)
	require.Empty(t, l.HTTPListen)
}

func TestErrorsNameKeyPlaceAndWhatIsAllowed(t *testing.T) {
	cases := []struct {
		name, yaml string
		environ    []string
		args       []string
		want       []string
	}{
		{name: "unknown key", yaml: "listen: 127.0.0.1:1\nmaxmemroy: 1gb\n", want: []string{"headgate.yaml:2: maxmemroy: unknown key"}},
		{name: "bad value", yaml: "\nmaxclients: many\n", want: []string{`headgate.yaml:2: maxclients: bad value "many": want a whole number from 1 to 1000000`}},
		{name: "two errors", yaml: "x: 1\ntimeout: soon\n", want: []string{"headgate.yaml:1: x", "headgate.yaml:2: timeout"}},
		{name: "twice", yaml: "timeout: 1\ntimeout: 2\n", want: []string{"headgate.yaml:2: timeout: set twice, first on line 1"}},
		{name: "list", yaml: "listen: [a, b]\n", want: []string{"headgate.yaml:1: listen: want one value"}},
		{name: "nothing", yaml: "listen:\n", want: []string{"headgate.yaml:1: listen: no value"}},
		{name: "not a mapping", yaml: "\n- a\n", want: []string{"headgate.yaml:2: want lines of the form name: value"}},
		{name: "not YAML", yaml: "timeout: 1\na: b: c\n", want: []string{"headgate.yaml", "line 2"}},
		{name: "two documents", yaml: "timeout: 1\n---\ntimeout: 2\n", want: []string{"more than one YAML document"}},
		{name: "unknown variable", environ: []string{"HEADGATE_MAXMEMROY=1"}, want: []string{"environment HEADGATE_MAXMEMROY: unknown variable"}},
		{name: "bad variable", environ: []string{"HEADGATE_LOG_LEVEL=loud"}, want: []string{`environment HEADGATE_LOG_LEVEL: log-level: bad value "loud": want one of debug, info, warn, error`}},
		{name: "bad flag", args: []string{"--shards=0"}, want: []string{"--shards", `"0"`, "want a whole number from 1 to 65536"}},
		{name: "port", args: []string{"--listen=localhost:70000"}, want: []string{"--listen", "from 0 to 65535"}},
		{name: "address", args: []string{"--listen=7379"}, want: []string{"--listen", "host:port"}},
		{name: "address in lines", args: []string{"--peer-advertise=x\r\ny:1"}, want: []string{"--peer-advertise", "host:port"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			_, err := load(t, c.yaml, c.environ, c.args...)
			require.Error(t, err)
			for _, want := range c.want {
				require.ErrorContains(t, err, want)
			}
		})
	}
}

// A pod in a namespace with a service called headgate gets these.
func TestServiceVariablesAreNotOurs(t *testing.T) {
	_, err := load(t, "", []string{
		"HEADGATE_SERVICE_HOST=10.0.0.1", "HEADGATE_SERVICE_PORT=7379", "HEADGATE_SERVICE_PORT_RESP=7379",
		"HEADGATE_PORT=tcp://10.0.0.1:7379", "HEADGATE_PORT_7379_TCP=tcp://10.0.0.1:7379",
		"HEADGATE_PORT_7379_TCP_PROTO=tcp", "HEADGATE_METRICS_SERVICE_HOST=10.0.0.2", "OTHER=1",
	})
	require.NoError(t, err)
	_, err = load(t, "", []string{"HEADGATE_PORT=7379"})
	require.ErrorContains(t, err, "HEADGATE_PORT: unknown variable")
}

func TestConflicts(t *testing.T) {
	cases := []struct {
		name string
		args []string
		want string // empty: no conflict
	}{
		{"cert without key", []string{"--tls-cert=c"}, "tls-cert and tls-key need each other"},
		{"key without cert", []string{"--tls-key=k"}, "tls-cert and tls-key need each other"},
		{"ca alone", []string{"--tls-ca=a"}, "tls-ca needs"},
		{"tls-listen alone", []string{"--tls-listen=127.0.0.1:1"}, "tls-listen needs"},
		{"client certificates without ca", []string{"--tls-cert=c", "--tls-key=k", "--tls-auth-clients=yes"}, "needs tls-ca"},
		{"no port", []string{"--listen="}, "nothing to listen on"},
		{"unix only", []string{"--listen=", "--unixsocket=/tmp/s"}, ""},
		{"perm alone", []string{"--unixsocketperm=700"}, "unixsocketperm needs unixsocket"},
		{"same port", []string{"--http-listen=127.0.0.1:7379"}, "are the same port"},
		{"same port everywhere", []string{"--http-listen=:7379"}, "are the same port"},
		{"same port elsewhere", []string{"--http-listen=127.0.0.2:7379"}, ""},
		{"any port twice", []string{"--listen=127.0.0.1:0", "--http-listen=127.0.0.1:0"}, ""},
		{"open", []string{"--listen=0.0.0.0:7379"}, "set requirepass, or protected-mode no"},
		{"open by name", []string{"--listen=example.com:7379"}, "open to other machines"},
		{"open everywhere", []string{"--listen=:7379"}, "open to other machines"},
		{"loopback v6", []string{"--listen=[::1]:7379"}, ""},
		{"localhost", []string{"--listen=localhost:7379"}, ""},
		{"open HTTP", []string{"--http-listen=:7380"}, "http-listen :7380 is open to other machines"},
		{"one password", []string{"--requirepass=s", "--admin-pass=s"}, "admin-pass and requirepass are the same"},
		{"tokens for http", []string{"--http-listen=0.0.0.0:1", "--http-read-token=r", "--http-see-token=s"}, ""},
		{"one token for http", []string{"--http-listen=0.0.0.0:1", "--http-read-token=r"}, "http-listen 0.0.0.0:1 is open to other machines"},
		{"half of TLS for http", []string{"--http-tls-cert=c"}, "http-tls-cert and http-tls-key need each other"},
		{"authorities alone", []string{"--http-tls-ca=c"}, "http-tls-ca needs http-tls-cert"},
		{"certificates for http", []string{"--http-listen=0.0.0.0:1", "--http-tls-cert=c", "--http-tls-key=k", "--http-tls-ca=a", "--http-write-certs=ci"}, ""},
		{"names without certificates", []string{"--http-write-certs=ci"}, "need http-tls-ca"},
		{"nobody to check", []string{"--http-tls-auth-clients=yes"}, "http-tls-auth-clients yes needs http-tls-ca"},
		{"two passwords", []string{"--requirepass=s", "--admin-pass=t"}, ""},
		{"open HTTP with password", []string{"--http-listen=:7380", "--requirepass=s"}, ""},
		{"open with password", []string{"--listen=:7379", "--requirepass=s"}, ""},
		{"open on purpose", []string{"--listen=:7379", "--protected-mode=no"}, ""},
		{"open TLS", []string{"--listen=:7379", "--tls-cert=c", "--tls-key=k"}, "the TLS port :7379 is open"},
		{"open TLS with client certificates", []string{"--listen=:7379", "--tls-cert=c", "--tls-key=k", "--tls-ca=a"}, ""},
		{"open TLS with optional certificates", []string{"--listen=:7379", "--tls-cert=c", "--tls-key=k", "--tls-ca=a", "--tls-auth-clients=optional"}, "is open"},
		{"plain open beside mutual TLS", []string{"--listen=:7379", "--tls-listen=:7378", "--tls-cert=c", "--tls-key=k", "--tls-ca=a"}, "listen :7379 is open"},
		{"bulk above buffer", []string{"--proto-max-bulk-len=512mb"}, "client-query-buffer-limit 64mb is below"},
		{"soft above hard", []string{"--client-output-buffer-soft-limit=1gb"}, "client-output-buffer-limit 256mb is below"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			_, err := load(t, "", nil, c.args...)
			if c.want == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, c.want)
			}
		})
	}
}

// A text that a client could not send is not a secret, and the error does not
// show it.
func TestSecretsThatNobodyCanSend(t *testing.T) {
	for _, name := range []string{"requirepass", "admin-pass", "http-read-token", "http-see-token", "http-write-token", "grpc-read-token"} {
		p := find(name)
		for _, bad := range []string{"hunter2\n", "hun\nter2", "hunter2\x00", "hunter2\r\n"} {
			_, err := load(t, "", []string{p.Env() + "=" + bad})
			require.ErrorContains(t, err, "environment "+p.Env()+": "+name+": bad value: want text without ")
			require.NotContains(t, err.Error(), "hunter2")
		}
		_, err := load(t, "", []string{p.Env() + "=hunter2 "})
		require.Equal(t, strings.HasSuffix(name, "-token"), err != nil, "blanks are part of a password")
		_, err = load(t, "", []string{p.Env() + "=hunter 2ü"})
		require.NoError(t, err)
	}
}

func TestSwitchesNeedNoValue(t *testing.T) {
	for _, v := range []struct {
		args []string
		want bool
	}{
		{nil, false},
		{[]string{"--pprof"}, true},
		{[]string{"--pprof", "--shards", "8"}, true},
		{[]string{"--pprof=no"}, false},
		{[]string{"--pprof", "no"}, false},
		{[]string{"--pprof", "on"}, true},
	} {
		l, err := load(t, "", nil, JoinSwitches(v.args)...)
		require.NoError(t, err, v.args)
		require.Equal(t, v.want, l.Pprof, v.args)
	}
	_, err := load(t, "", nil, "--pprof=maybe")
	require.ErrorContains(t, err, "want yes or no")
	other := []string{"--data-dir", "yes", "--pprof", "file"}
	require.Equal(t, other, JoinSwitches(other))
}

// check-config prints a configuration file with the same meaning.
func TestPrintReadsBack(t *testing.T) {
	l, err := load(t, "maxmemory: 1500mb\nslowlog-log-slower-than: -1\ntimeout: 90s\nunixsocket: \"/tmp/a b#c\"\n", nil)
	require.NoError(t, err)
	var out bytes.Buffer
	require.NoError(t, l.Print(&out))
	require.Contains(t, out.String(), "# headgate.yaml:1\n")
	again, err := load(t, out.String(), nil)
	require.NoError(t, err)
	require.Equal(t, l.Config, again.Config)
}

func TestPrintHidesThePassword(t *testing.T) {
	l, err := load(t, "requirepass: hunter2\n", nil)
	require.NoError(t, err)
	var out bytes.Buffer
	require.NoError(t, l.Print(&out))
	require.NotContains(t, out.String(), "hunter2")
}

// For each value that Set accepts, it also accepts what String and Redis
// return, and all mean the same.
func TestValuesRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := rapid.SampledFrom(Params).Draw(t, "param")
		text := rapid.OneOf(
			rapid.StringMatching(`-?[0-9]{1,20}(b|k|kb|mb|gb|%|s|ms|us|m|h)?`),
			rapid.SampledFrom([]string{"yes", "no", "text", "JSON", "optional", "noeviction", "127.0.0.1:80", ":0", "1%", "100%", ""}),
		).Draw(t, "text")
		var a, b, c Config
		if p.Value(&a).Set(text) != nil {
			require.Equal(t, Config{}, a, "a refused value changes nothing")
			return
		}
		require.NoError(t, p.Value(&b).Set(p.Value(&a).String()))
		require.Equal(t, a, b)
		require.NoError(t, p.Value(&c).Set(p.Value(&a).Redis()))
		require.Equal(t, p.Value(&a).Redis(), p.Value(&c).Redis())
	})
}

func TestSizes(t *testing.T) {
	var n int64
	v := size{p: &n, least: 1, most: 1 << 40, total: func() int64 { return 1000 }}
	for text, want := range map[string]int64{
		"1": 1, "1b": 1, "1k": 1000, "1kb": 1024, "1M": 1e6, "1MB": 1 << 20, "2g": 2e9, "2Gb": 2 << 30, "60%": 600, "100%": 1000,
	} {
		require.NoError(t, v.Set(text), text)
		require.Equal(t, want, n, text)
	}
	for _, text := range []string{"", "b", "kb", "-1", "1.5gb", "0", "0%", "101%", "1e3", "99999999999gb", "1tb", " 1"} {
		require.Error(t, v.Set(text), text)
	}
}

func FuzzFile(f *testing.F) {
	f.Add([]byte("listen: 127.0.0.1:0\nmaxmemory: 60%\n"))
	f.Add([]byte("a: &x 1\nb: *x\n<<: *x\n"))
	f.Add([]byte("? [a]\n: b\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		l := Loaded{Config: defaults(), Sources: map[string]string{}}
		for _, err := range l.setFile(filepath.Base(t.Name()), data) {
			if err != nil {
				require.NotEmpty(t, err.Error())
			}
		}
	})
}
