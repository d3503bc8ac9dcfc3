package docs_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/internal/hgtest"
)

const policiesPage = "policies.md"

// namedBlock is one whose first line is its name.
var namedBlock = regexp.MustCompile("(?ms)^```yaml\n(# (\\w+\\.yaml)\n.*?)^```")

// policyFiles writes the files of the page into a directory, and returns it with
// their names.
func policyFiles(t *testing.T) (dir string, names []string) {
	t.Helper()
	text, err := os.ReadFile(policiesPage)
	require.NoError(t, err)
	dir = t.TempDir()
	for _, m := range namedBlock.FindAllStringSubmatch(string(text), -1) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, m[2]), []byte(m[1]), 0o600))
		names = append(names, m[2])
	}
	return dir, names
}

// headgate runs a command line of the page in a directory, and returns what it
// prints.
func headgate(t *testing.T, bin, dir, line string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), bin, strings.Fields(line)...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// The files of the page are right, its cases pass, and what it shows of them is
// what is printed.
func TestPolicyCases(t *testing.T) {
	bin, err := hgtest.Binary()
	require.NoError(t, err)
	dir, names := policyFiles(t)
	require.Equal(t, []string{"api.yaml", "saas.yaml", "hooks.yaml", "quota.yaml", "quotacases.yaml", "cases.yaml", "export.yaml", "exportcases.yaml", "login.yaml", "logincases.yaml"}, names)
	for _, name := range []string{names[0], names[1], names[2], names[3], names[6], names[8]} {
		out, err := headgate(t, bin, dir, "policy check "+name)
		require.NoError(t, err, out)
		require.NotContains(t, out, "warning")
	}
	text, err := os.ReadFile(policiesPage)
	require.NoError(t, err)
	for _, line := range []string{"policy test api.yaml cases.yaml", "policy test quota.yaml quotacases.yaml", "policy test export.yaml exportcases.yaml", "policy test login.yaml logincases.yaml"} {
		_, shown, ok := strings.Cut(string(text), "```\n$ headgate "+line+"\n")
		require.True(t, ok)
		shown, _, _ = strings.Cut(shown, "```")
		out, err := headgate(t, bin, dir, line)
		require.NoError(t, err, out)
		require.Equal(t, shown, out)
	}

	// The failure that is shown is of one call too many.
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

// The keys of steps that the page tells are those that there are.
func TestPolicyCaseKeys(t *testing.T) {
	bin, err := hgtest.Binary()
	require.NoError(t, err)
	dir, _ := policyFiles(t)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "cases.yaml"), []byte("cases: [{name: a, policy: api, steps: [{unknown: 1}]}]"), 0o600))
	out, err := headgate(t, bin, dir, "policy test api.yaml cases.yaml")
	require.Error(t, err)
	_, keys, ok := strings.Cut(strings.TrimSpace(out), " in a step, use ")
	require.True(t, ok, out)
	text, err := os.ReadFile(policiesPage)
	require.NoError(t, err)
	_, table, ok := strings.Cut(string(text), "A step is a call:\n")
	require.True(t, ok)
	table, _, _ = strings.Cut(table, "\n## ")
	require.Equal(t, strings.Split(keys, ", "), names("(?m)^\\| `(\\w+)` \\|", table))
}
