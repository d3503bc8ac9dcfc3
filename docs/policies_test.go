package docs_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/internal/hgtest"
)

// policyTests is the page about test cases of policies.
const policyTests = "policy-tests.md"

var (
	// namedBlock is one whose first line is its name.
	namedBlock = regexp.MustCompile("(?ms)^```yaml\n(# (\\w+\\.yaml)\n.*?)^```")
	// policyLine is a command line about files, with what it prints.
	policyLine = regexp.MustCompile("(?ms)^\\$ headgate (policy .*?)\n(.*?)(?:^\\$|^```)")
)

// policyFiles writes the files of a page into a directory.
func policyFiles(t *testing.T, text string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for _, m := range namedBlock.FindAllStringSubmatch(text, -1) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, m[2]), []byte(m[1]), 0o600))
	}
	return dir
}

// headgate runs a command line of a page in a directory, and returns what it
// prints.
func headgate(t *testing.T, bin, dir, line string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), bin, strings.Fields(line)...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// The files of the pages are right, the cases pass, and what a page shows of its files
// is what is printed.
func TestPolicyFiles(t *testing.T) {
	bin, err := hgtest.Binary()
	require.NoError(t, err)
	checked, run := 0, 0
	for _, page := range pages(t) {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		dir := policyFiles(t, string(text))
		for _, m := range namedBlock.FindAllStringSubmatch(string(text), -1) {
			if !strings.Contains(m[1], "\npolicies:\n") {
				continue
			}
			checked++
			out, err := headgate(t, bin, dir, "policy check "+m[2])
			require.NoError(t, err, "%s: %s", page, out)
			assert.NotContains(t, out, "warning", "%s: %s", page, m[2])
		}
		for _, m := range policyLine.FindAllStringSubmatch(string(text), -1) {
			run++
			out, _ := headgate(t, bin, dir, m[1])
			assert.Equal(t, m[2], out, "%s: %s", page, m[1])
		}
	}
	require.Greater(t, checked, 9)
	require.Greater(t, run, 4)
}

// The failure that is shown is of one call too many.
func TestPolicyCaseThatFails(t *testing.T) {
	bin, err := hgtest.Binary()
	require.NoError(t, err)
	text, err := os.ReadFile(policyTests)
	require.NoError(t, err)
	dir := policyFiles(t, string(text))
	cases, err := os.ReadFile(filepath.Join(dir, "cases.yaml"))
	require.NoError(t, err)
	wrong := strings.NewReplacer("a free key has ten calls at once, then one each 36 s", "a free key has eleven calls at once",
		"times: 10, expect: allow", "times: 11, expect: allow").Replace(string(cases))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "cases.yaml"), []byte(wrong), 0o600))
	out, err := headgate(t, bin, dir, "policy test api.yaml cases.yaml")
	require.Error(t, err)
	_, shown, ok := strings.Cut(string(text), "```\nFAIL ")
	require.True(t, ok)
	shown, _, _ = strings.Cut(shown, "```")
	require.Contains(t, out, "FAIL "+shown)
}

// The keys of steps that the page lists are those that a case can have.
func TestPolicyCaseKeys(t *testing.T) {
	bin, err := hgtest.Binary()
	require.NoError(t, err)
	text, err := os.ReadFile(policyTests)
	require.NoError(t, err)
	dir := policyFiles(t, string(text))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "cases.yaml"), []byte("cases: [{name: a, policy: api, steps: [{unknown: 1}]}]"), 0o600))
	out, err := headgate(t, bin, dir, "policy test api.yaml cases.yaml")
	require.Error(t, err)
	_, keys, ok := strings.Cut(strings.TrimSpace(out), " in a step, use ")
	require.True(t, ok, out)
	_, table, ok := strings.Cut(string(text), "\n## Steps\n")
	require.True(t, ok)
	table, _, _ = strings.Cut(table, "\n## ")
	require.Equal(t, strings.Split(keys, ", "), names("(?m)^\\| `(\\w+)` \\|", table))
}
