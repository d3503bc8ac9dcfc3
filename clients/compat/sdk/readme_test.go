package sdk_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestReadme runs the program of the client's README, and compares what it prints.
func TestReadme(t *testing.T) {
	readme, err := os.ReadFile("../../go/README.md")
	require.NoError(t, err)
	program, err := os.ReadFile("example/main.go")
	require.NoError(t, err)
	require.Contains(t, string(readme), "```go\n"+string(program)+"```\n")
	cmd := exec.Command("go", "run", "./example")
	cmd.Env = append(os.Environ(), "HEADGATE="+servers.Plain.Addr)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	require.Contains(t, string(readme), "It prints `"+strings.TrimSpace(string(out))+"`")
}
