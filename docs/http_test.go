package docs_test

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/internal/hgtest"
)

const gatewaysPage = "gateways.md"

// TestCurl runs every block of three pages that begins with curl, after the sessions of its
// page, and compares the answers as replies in sessions are compared.
func TestCurl(t *testing.T) {
	findCLI(t)
	if _, err := exec.LookPath("curl"); err != nil {
		t.Fatal("curl is not installed; make deps installs it")
	}
	for _, page := range []string{"http.md", "http-admin.md", gatewaysPage} {
		t.Run(page, func(t *testing.T) {
			s, err := hgtest.Start(hgtest.Config{})
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, s.Stop()) })
			runSessions(t, page, map[string]string{"7379": port(t, s.Addr)})
			if page == gatewaysPage {
				testRouteTest(t, s.Addr)
			}
			blocks := curlBlocks(t, page)
			require.NotEmpty(t, blocks)
			for _, lines := range blocks {
				runCurl(t, s.HTTP, lines)
			}
		})
	}
}

// curlBlocks returns the lines of the blocks that begin with curl.
func curlBlocks(t *testing.T, page string) (blocks [][]string) {
	t.Helper()
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	for i, block := range strings.Split(string(text), "\n```") {
		if i%2 == 0 {
			continue
		}
		if _, block, _ = strings.Cut(block, "\n"); strings.HasPrefix(block, "$ curl ") {
			blocks = append(blocks, strings.Split(block, "\n"))
		}
	}
	return blocks
}

// runCurl runs the lines of a block that begin with $, against a server.
func runCurl(t *testing.T, server string, lines []string) {
	t.Helper()
	for len(lines) > 0 {
		line, ok := strings.CutPrefix(lines[0], "$ ")
		require.True(t, ok, lines[0])
		n := 1
		for n < len(lines) && !strings.HasPrefix(lines[n], "$ ") {
			n++
		}
		want := lines[1:n]
		lines = lines[n:]
		line = remark.ReplaceAllString(strings.ReplaceAll(line, "localhost:7380", server), "")
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		out, err := exec.CommandContext(ctx, "sh", "-c", line).Output()
		cancel()
		require.NoError(t, err, line)
		var got []string
		for answered := range strings.Lines(string(out)) {
			if answered = strings.TrimRight(answered, "\r\n"); answered != "" {
				got = append(got, answered)
			}
		}
		require.True(t, matchLines(want, got), "%s\nthe page says:\n%s\nthe server says:\n%s", line, strings.Join(want, "\n"), strings.Join(got, "\n"))
	}
}

// testRouteTest runs the line of the page that tests a route, against a server.
func testRouteTest(t *testing.T, server string) {
	t.Helper()
	bin, err := hgtest.Binary()
	require.NoError(t, err)
	text, err := os.ReadFile(gatewaysPage)
	require.NoError(t, err)
	_, shown, ok := strings.Cut(string(text), "```\n$ headgate route test ")
	require.True(t, ok)
	line, shown, _ := strings.Cut(shown, "\n")
	shown, _, _ = strings.Cut(shown, "```")
	out, err := exec.CommandContext(t.Context(), "sh", "-c", bin+" route test "+line+" --url redis://"+server).CombinedOutput()
	require.NoError(t, err, string(out))
	require.Equal(t, shown, string(out))
}
