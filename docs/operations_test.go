package docs_test

import (
	"flag"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/cmd/headgate/config"
	"github.com/headgate-io/headgate/internal/certstest"
)

var update = flag.Bool("update", false, "write the generated parts of pages, such as the tables of parameters")

const configuration = "configuration.md"

// TestParameters demands that configuration.md has the parameters that the server
// has. With -update it writes them.
func TestParameters(t *testing.T) {
	const begin, end = "<!-- parameters -->\n", "<!-- /parameters -->\n"
	text, err := os.ReadFile(configuration)
	require.NoError(t, err)
	before, rest, ok := strings.Cut(string(text), begin)
	require.True(t, ok)
	table, after, ok := strings.Cut(rest, end)
	require.True(t, ok)
	if *update {
		require.NoError(t, os.WriteFile(configuration, []byte(before+begin+parameterTables()+end+after), 0o644))
		return
	}
	require.Equal(t, parameterTables(), table, "go test ./docs -update writes it")
}

// parameterTables returns a table a section.
func parameterTables() string {
	var b strings.Builder
	section := ""
	for _, p := range config.Params {
		if p.Section != section {
			section = p.Section
			fmt.Fprintf(&b, "\n### %s\n\n| parameter | default | `CONFIG SET` | meaning, and values |\n|---|---|---|---|\n", section)
		}
		value := "`" + p.Default + "`"
		switch {
		case p.Name == "io-threads": // depends on the machine
			value = "cores / 2"
		case p.Default == "":
			value = "none"
		}
		mutable := ""
		if p.Mutable {
			mutable = "yes"
		}
		allowed := strings.ReplaceAll(p.Value(new(config.Config)).Allowed(), "|", `\|`)
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s *%s.* |\n", p.Name, value, mutable, p.Doc, upperFirst(allowed))
	}
	b.WriteString("\n")
	return b.String()
}

func upperFirst(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

// TestMetrics compares the metrics that metrics.md names with those that a
// node of a cluster shows.
func TestMetrics(t *testing.T) {
	findCLI(t)
	body := ""
	cert, key := filepath.Join(t.TempDir(), "cert.pem"), filepath.Join(t.TempDir(), "key.pem")
	require.NoError(t, certstest.New().Write("node", cert, key))
	nodes := startCluster(t, "--grpc-tls-cert", cert, "--grpc-tls-key", key)
	// Of a decision the leader tells, and not the node that was asked.
	for i := 0; !strings.Contains(body, "headgate_decisions_total") || !strings.Contains(body, "headgate_policy_calls_total"); i++ {
		require.Less(t, i, 10*len(nodes), "nobody decides")
		s := nodes[i%len(nodes)]
		cli(t, port(t, s.Addr), []string{"RL.LIMIT", "key", "1", "1"}, "")
		cli(t, port(t, s.Addr), []string{"RL.POLICY", "SET", "metrics", "{limits: {l: {rate: 5/m}}}"}, "")
		cli(t, port(t, s.Addr), []string{"INFO"}, "") // timed in any case
		resp, err := http.Get("http://" + s.HTTP + "/metrics")
		require.NoError(t, err)
		text, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		body = string(text)
	}
	page, err := os.ReadFile("metrics.md")
	require.NoError(t, err)

	shown := names(`(?m)^# TYPE (headgate_\w+) `, body)
	require.NotEmpty(t, shown)
	require.Equal(t, shown, names("`(headgate_[a-z_]+)", string(page)))
}

// names returns the first groups of a pattern's matches, each once, sorted.
func names(pattern, text string) []string {
	var out []string
	for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
		out = append(out, m[1])
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// The tests that the tables of bounds name are there.
func TestBoundsAreTested(t *testing.T) {
	page, err := os.ReadFile("bounds.md")
	require.NoError(t, err)
	named := names(`\b((?:Test|Fuzz)\w+)`, string(page))
	require.Greater(t, len(named), 20)
	var sources strings.Builder
	for _, dir := range []string{"../server", "../cluster", "../resp", "../engine", "../shard", "../internal/accept", "../cmd/headgate"} {
		require.NoError(t, filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, "_test.go") {
				return err
			}
			source, err := os.ReadFile(path)
			sources.Write(source)
			return err
		}))
	}
	have := names(`(?m)^func ((?:Test|Fuzz)\w+)\(`, sources.String())
	require.Subset(t, have, named)
}
