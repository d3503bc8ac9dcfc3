package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// policyFiles writes texts to files a.yaml, b.yaml, … of a directory of the test's
// own, which becomes the working directory.
func policyFiles(t *testing.T, texts ...string) {
	t.Helper()
	t.Chdir(t.TempDir())
	for i, text := range texts {
		require.NoError(t, os.WriteFile(string(rune('a'+i))+".yaml", []byte(text), 0o600))
	}
}

// policyRun runs `headgate policy` with the words of a line.
func policyRun(line string) (stdout, stderr string, err error) {
	var out, errs bytes.Buffer
	err = run(context.Background(), append([]string{"policy"}, strings.Fields(line)...), &out, &errs)
	return out.String(), errs.String(), err
}

func TestPolicyCheckCommand(t *testing.T) {
	policyFiles(t, `
lists: {bad-nets: [203.0.113.0/24]}
policies:
  api:
    deny: [{ip: {list: bad-nets}}]
    limits:
      key: {by: key, rate: 5/m}
      all: {rate: 100/s}
    overrides:
      - {when: {key: "a*"}, limits: {key: 6/m}}
      - {when: {key: acme}, limits: {key: 7/m}}
  login:
    attributes: {email: {type: [lower, secret]}}
    limits: {account: {by: email, rate: 5/m}}
`, `
policies:
  api:
    limits:
      key: {by: key, rate: 5/mn}
      key: {by: key, rate: 5/m}
  login:
    deny: [{ip: {list: bad-nets}}]
    limts: {account: {by: email, rate: 5/m}}
`, `
policies:
  login:
    deny: [{ip: {list: bad-nets}}]
    limits: {account: {by: email, rate: 5/m}}
`, "policies: {}")
	out, errs, err := policyRun("check a.yaml")
	require.NoError(t, err)
	require.Equal(t, "a.yaml: 2 policies with 3 limits, nothing is wrong\n", out)
	require.Equal(t, `warning: a.yaml:7:17: policies.api.limits.key.by: the attribute "key" looks like a credential, and RL.TOP shows its values: write `+"`attributes: {key: {type: secret}}`"+`
warning: a.yaml:11:43: policies.api.overrides[1].limits.key: never counts: overrides[0] matches first, for limit "key"
warning: a.yaml:14:14: limit "account" does not apply to a call without the attribute "email", and such a call may pass without any limit: write `+"`require` in the policy, or `missing: deny` in the limit"+`
`, errs)

	out, errs, err = policyRun("check b.yaml")
	require.EqualError(t, err, "b.yaml: 3 errors")
	require.Empty(t, out)
	lines := strings.Split(strings.TrimSpace(errs), "\n")
	require.Len(t, lines, 3, errs)
	for i, want := range []string{`b\.yaml:5:\d+: policies\.api\.limits\.key\.rate: .*"mn"`, `b\.yaml:6:\d+: .*key`, `b\.yaml:9:\d+: .*did you mean "limits"`} {
		require.Regexp(t, want, lines[i])
	}

	// Errors that only compiling finds.
	_, errs, err = policyRun("check c.yaml")
	require.EqualError(t, err, "c.yaml: 1 error")
	require.Regexp(t, `c\.yaml:4:\d+: .*bad-nets`, errs)

	out, _, err = policyRun("check d.yaml")
	require.NoError(t, err)
	require.Equal(t, "d.yaml: 0 policies with 0 limits, nothing is wrong\n", out)

	_, _, err = policyRun("check none.yaml")
	require.ErrorIs(t, err, os.ErrNotExist)
	for _, line := range []string{"check", "check a.yaml b.yaml", "chek a.yaml"} {
		_, _, err = policyRun(line)
		require.Error(t, err, line)
	}
	stdout, _, err := policyRun("")
	require.NoError(t, err)
	require.Contains(t, stdout, "Report the errors of a file of policies")
}

// A file is read no further than it may be long.
func TestPolicyCheckOfLongFiles(t *testing.T) {
	name := filepath.Join(t.TempDir(), "long.yaml")
	f, err := os.Create(name)
	require.NoError(t, err)
	require.NoError(t, f.Truncate(1<<32))
	require.NoError(t, f.Close())
	_, errs, err := policyRun("check " + name)
	require.EqualError(t, err, name+": 1 error")
	require.Contains(t, errs, "a file may have 16777216 bytes")
}

func TestPolicyDiffCommand(t *testing.T) {
	const old = `
attributes: {email: {type: lower}}
lists: {bad: [a, b]}
policies:
  api:
    deny: [{key: {list: bad}}]
    limits:
      key: {by: key, tiers: {attribute: tier, free: 60/m, pro: 600/m, default: 60/m}}
      day: {by: key, rate: 1000/day}
      net: {by: ip, rate: 300/m}
      old: {rate: 10/s}
      tried: {rate: 20/s, mode: shadow}
  same: {limits: {all: {rate: 10/s}}}
  gone: {limits: {all: {rate: 10/s}}}
`
	policyFiles(t, old, `
attributes: {email: {type: [lower, secret]}}
lists: {bad: [b, c]}
policies:
  api:
    on_failure: closed
    deny: [{key: {list: bad}}]
    limits:
      key: {by: key, tiers: {attribute: tier, free: 100/m, pro: 600/m, vip: unlimited, default: 60/m}, mode: soft}
      daily: {by: key, rate: 1000/day, id: day}
      net: {by: {ip: {v4: 24}}, rate: 600/m}
      tried: {rate: 20/s}
      new: {by: user, rate: 5/s}
  same: {limits: {all: {rate: 10/s}}}
  login: {limits: {user: {by: user, rate: 5/m}}}
`, strings.Replace(old, "{by: ip, rate: 300/m}", "{by: ip, rate: 300/m, algorithm: log}", 1))
	const want = `attributes
  email: {type: lower} -> {type: [lower, secret]}
    counters have other keys: they begin empty, and the old ones expire
list bad
  lists/bad is gone: a
  lists/bad is new: c
policy api
  on_failure is new: closed
  limit old is gone: {rate: 10/s}
    its counters expire by themselves
  limit key: tiers free: 60/m -> 100/m
  limit key: tiers vip is new: unlimited
  limit key: mode is new: soft
    counters stay: what was consumed stays, in units
  limit day is now called daily
    counters stay, since the id does
  limit net: by: ip -> {ip: {v4: 24}}
  limit net: rate: 300/m -> 600/m
    counters have other keys: they begin empty, and the old ones expire
  limit tried: mode is gone: shadow
  limit new is new: {by: user, rate: 5/s}
policy gone is gone
  a node whose parameter policies names the file deletes it; RL.POLICY LOAD keeps it, RL.POLICY DEL gone deletes it
policy login is new
  limit user is new: {by: user, rate: 5/m}
`
	out, errs, err := policyRun("diff a.yaml b.yaml")
	require.NoError(t, err)
	require.Empty(t, errs)
	require.Equal(t, want, out)
	const keep = "counters stay: what was consumed stays, in units"
	out, _, err = policyRun("diff --change proportional a.yaml b.yaml")
	require.NoError(t, err)
	require.Equal(t, strings.Replace(want, keep, "counters stay: what was consumed stays, as a share of the limit", 1), out)
	out, _, err = policyRun("diff --change=RESET a.yaml b.yaml")
	require.NoError(t, err)
	require.Equal(t, strings.Replace(want, keep, "counters begin at zero", 1), out)

	out, _, err = policyRun("diff a.yaml a.yaml")
	require.NoError(t, err)
	require.Equal(t, "nothing changes\n", out)

	// Another algorithm.
	const log = "policy api\n  limit net: algorithm is new: log\n    "
	out, _, err = policyRun("diff a.yaml c.yaml")
	require.EqualError(t, err, "policy api: limit 'net' counts by token, not log: use CHANGE reset, or another id")
	require.Equal(t, log+"refused: another algorithm, period or calendar takes CHANGE reset, or another id\n", out)
	out, _, err = policyRun("diff a.yaml c.yaml --change reset")
	require.NoError(t, err)
	require.Equal(t, log+"counters begin at zero\n", out)

	for _, line := range []string{"diff a.yaml", "diff a.yaml none.yaml", "diff none.yaml a.yaml", "diff - -", "diff a.yaml b.yaml --change lose"} {
		_, _, err = policyRun(line)
		require.Error(t, err, line)
	}
}

// The standard input is a file, too.
func TestPolicyDiffOfStandardInput(t *testing.T) {
	policyFiles(t, "policies: {p: {limits: {a: {rate: 1/s}}}}")
	cmd := command(t, "policy", "diff", "-", filepath.Join(mustWorkDir(t), "a.yaml"))
	cmd.Stdin = strings.NewReader("policies: {p: {limits: {a: {rate: 2/s}}}}")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	require.Equal(t, "policy p\n  limit a: rate: 2/s -> 1/s\n    counters stay: what was consumed stays, in units\n", string(out))

	cmd = command(t, "policy", "check", "-")
	cmd.Stdin = strings.NewReader("policies: {p: {limits: {a: {rate: 2}}}}")
	require.Contains(t, fails(t, cmd), "headgate: -: 1 error\n")
}

func mustWorkDir(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	require.NoError(t, err)
	return dir
}
