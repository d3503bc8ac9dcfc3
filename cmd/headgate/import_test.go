package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/policy/grammar"
)

// Files of Envoy's rate limit service become a file of policies, or nothing.
func TestImportEnvoy(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	imports := func(args ...string) (out, told string, err error) {
		var stdout, stderr bytes.Buffer
		err = run(context.Background(), append([]string{"import", "envoy"}, args...), &stdout, &stderr)
		return stdout.String(), stderr.String(), err
	}
	one := file("one.yaml", "---\n# ours\ndomain: edge\ndescriptors:\n  - key: a\n    rate_limit:\n      unit: Minute\n      requests_per_unit: 5\n")
	two := file("two.yaml", "domain: edge\ndescriptors:\n  - {key: b, value: \"x*\", quota_mode: true, rate_limit: {unit: month, requests_per_unit: 7}}\n  - {key: c, rate_limit: {unit: day}}\n")
	other := file("other.yaml", "domain: other\ndescriptors: []\n")

	out, told, err := imports(one, other)
	require.NoError(t, err)
	require.Equal(t, "policies:\n  edge:\n    descriptors:\n      - key: a\n        rate_limit: {unit: minute, requests_per_unit: 5}\n  other:\n    descriptors: []\n", out)
	require.Contains(t, told, "edge: 1 descriptor, 1 limit\n")
	require.Contains(t, told, "LOCAL_CACHE_SIZE_IN_BYTES")

	_, _, err = imports(one, two)
	require.ErrorContains(t, err, "--merge")
	out, told, err = imports("--merge", one, two)
	require.NoError(t, err)
	records, err := grammar.ParseFile("f", []byte(out))
	require.NoError(t, err)
	require.Len(t, records, 1)
	require.Contains(t, told, "edge: 3 descriptors, 3 limits\n")
	require.Contains(t, told, "1 descriptor without requests_per_unit")
	require.Contains(t, told, "1 descriptor in quota_mode")
	require.Contains(t, told, "1 descriptor in months or years")

	again := file("again.yaml", "domain: edge\ndescriptors:\n  - key: z\n  - key: a\n")
	out, told, err = imports("--merge", one, again)
	require.ErrorContains(t, err, "1 error, nothing is imported")
	require.Empty(t, out)
	require.Contains(t, told, again+`:4:5: duplicate composite key "a", first in `+one+", line 5\n")
	bad := file("bad.yaml", "domain: Edge\ndescriptors:\n  - key: a\n")
	_, told, err = imports(bad)
	require.ErrorContains(t, err, "1 error, nothing is imported")
	require.Contains(t, told, bad+`:1:9: domain: "Edge" does not name a policy`)
	_, told, err = imports(file("none.yaml", "descriptors: []\n"))
	require.Error(t, err)
	require.Contains(t, told, "domain is missing")
}
