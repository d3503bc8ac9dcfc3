package docs_test

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/internal/hgtest"
)

// startPage has sessions on a server on its own and then, below killHeading, on three nodes.
const (
	startPage   = "getting-started.md"
	killHeading = "\n## Kill it\n"
)

// regionsPage has sessions on two servers that know nothing of each other.
const regionsPage = "howto/two-regions.md"

// pages returns the pages of users, by their paths from here.
func pages(t *testing.T) []string {
	t.Helper()
	out := []string{"../README.md"}
	for _, at := range []string{"*.md", "howto/*.md", "commands/*.md", "skill/*.md"} {
		found, err := filepath.Glob(at)
		require.NoError(t, err)
		out = append(out, found...)
	}
	return out
}

func TestMain(m *testing.M) {
	code := m.Run()
	hgtest.Clean()
	os.Exit(code)
}

// start runs a server on ports of its own, and returns that of clients.
func start(t *testing.T) string {
	t.Helper()
	s, err := hgtest.Start(hgtest.Config{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Stop() }) // an error if a session has shut it down
	return port(t, s.Addr)
}

// startCluster runs the three nodes of a cluster, as make cluster does.
func startCluster(t *testing.T, args ...string) []*hgtest.Server {
	t.Helper()
	c, err := hgtest.StartCluster(append(args, "--on-failure", "default",
		// So that nothing is degraded on a machine that is busy with other tests.
		"--raft-profile", "slow", "--max-unacked", "10s", "--forward-timeout", "10s")...)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Stop() }) // as above
	return c.Nodes
}

func port(t *testing.T, addr string) string {
	t.Helper()
	_, port, err := net.SplitHostPort(addr)
	require.NoError(t, err)
	return port
}

func findCLI(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("redis-cli"); err != nil {
		t.Fatal("redis-cli is not installed; make deps installs it")
	}
}

// cli runs redis-cli as a terminal would show it and returns what it prints,
// without blank lines.
func cli(t *testing.T, port string, args []string, input string) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, "redis-cli", append([]string{"--no-raw", "-p", port}, args...)...)
	cmd.Stdin = strings.NewReader(input)
	// An error reply ends redis-cli with 1: the text tells.
	out, err := cmd.CombinedOutput()
	require.NoError(t, ctx.Err())
	if err != nil {
		require.ErrorAs(t, err, new(*exec.ExitError))
	}
	var lines []string
	for line := range strings.SplitSeq(string(out), "\n") {
		if line = strings.TrimRight(line, " \r"); line != "" {
			lines = append(lines, line)
		}
	}
	return lines
}

// TestSessions runs every session of the pages against a server, each on an
// empty key space, and compares the replies. A page that names the ports of three
// nodes has a cluster.
func TestSessions(t *testing.T) {
	findCLI(t)
	for _, page := range pages(t) {
		sessions := readSessions(t, page)
		if len(sessions) == 0 {
			continue
		}
		t.Run(strings.TrimPrefix(page, "../"), func(t *testing.T) {
			if page == startPage {
				testStartPage(t)
				return
			}
			if page == regionsPage {
				runSessions(t, page, map[string]string{"7379": start(t), "7389": start(t)})
				return
			}
			if !slices.ContainsFunc(sessions, session.ofCluster) {
				runSessions(t, page, map[string]string{"7379": start(t)})
				return
			}
			nodes := startCluster(t)
			runSessions(t, page, map[string]string{"7379": port(t, nodes[0].Addr), "7389": port(t, nodes[1].Addr), "7399": port(t, nodes[2].Addr)})
		})
	}
}

// testStartPage runs the sessions of the first page on a server, with its requests by
// curl. It then runs those on three nodes: one, the death of the leader, and the other.
func testStartPage(t *testing.T) {
	text, err := os.ReadFile(startPage)
	require.NoError(t, err)
	before, _, ok := strings.Cut(string(text), killHeading)
	require.True(t, ok)
	sessions := readSessions(t, startPage)
	cluster := slices.IndexFunc(sessions, func(s session) bool { return s.line > strings.Count(before, "\n") })
	require.Equal(t, len(sessions)-2, cluster)

	s, err := hgtest.Start(hgtest.Config{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Stop()) })
	for _, session := range sessions[:cluster] {
		require.Equal(t, []string{"OK"}, cli(t, port(t, s.Addr), []string{"FLUSHALL"}, ""))
		session.run(t, map[string]string{"7379": port(t, s.Addr)})
	}
	require.Equal(t, []string{"OK"}, cli(t, port(t, s.Addr), []string{"FLUSHALL"}, ""))
	for _, lines := range curlBlocks(t, startPage) {
		runCurl(t, s.HTTP, lines)
	}

	c, err := hgtest.StartCluster("--on-failure", "default", "--raft-profile", "slow", "--forward-timeout", "10s")
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Stop() }) // an error, since a node was killed
	leader, err := c.Leader()
	require.NoError(t, err)
	var others []string
	for _, n := range c.Nodes {
		if n != leader {
			others = append(others, port(t, n.Addr))
		}
	}
	sessions[cluster].run(t, map[string]string{"7379": others[0]})
	require.Equal(t, "(integer) 2", cli(t, others[0], []string{"WAIT", "2", "10000"}, "")[0])
	_, err = c.KillLeader()
	require.NoError(t, err)
	_, err = c.Leader()
	require.NoError(t, err)
	sessions[cluster+1].run(t, map[string]string{"7399": others[1]})
}

// runSessions runs the sessions of a page, each on an empty key space. servers are the
// ports that stand for those of the page.
func runSessions(t *testing.T, page string, servers map[string]string) {
	t.Helper()
	for _, s := range readSessions(t, page) {
		require.Equal(t, []string{"OK"}, cli(t, servers["7379"], []string{"FLUSHALL"}, ""))
		s.run(t, servers)
	}
}

// run runs a session, and compares the replies.
func (s session) run(t *testing.T, servers map[string]string) {
	t.Helper()
	var printed []string
	for _, st := range s.steps {
		for i := range st.input {
			st.input[i] = complete(st.input[i], printed)
		}
		require.Contains(t, servers, st.port, s)
		input := ""
		if len(st.input) > 0 {
			input = strings.Join(st.input, "\n") + "\n"
		}
		got := cli(t, servers[st.port], st.args, input)
		printed = append(printed, got...)
		if !matchLines(st.want, got) {
			t.Errorf("%s: %v %v\nthe page says:\n%s\nthe server says:\n%s", s, st.args, st.input,
				strings.Join(st.want, "\n"), strings.Join(got, "\n"))
		}
	}
}

// link is a Markdown link or image without a scheme: a file, an anchor, or both.
var link = regexp.MustCompile(`\]\(([^):#]*)(?:#([^)]*))?\)`)

// TestLinks demands that what the pages link to is there.
func TestLinks(t *testing.T) {
	all := append([]string{"../CHANGELOG.md", "../raftlog/RAFT.md",
		"../CONTRIBUTING.md", "../SECURITY.md", "../SUPPORT.md", "../CODE_OF_CONDUCT.md"}, pages(t)...)
	for _, at := range []string{"../DESIGN.md", "../*/DESIGN.md", "../*/*/DESIGN.md"} {
		found, err := filepath.Glob(at)
		require.NoError(t, err)
		require.NotEmpty(t, found, at)
		all = append(all, found...)
	}
	for _, page := range all {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		for _, m := range link.FindAllStringSubmatch(string(text), -1) {
			target := page
			if m[1] != "" {
				target = filepath.Join(filepath.Dir(page), m[1])
			}
			_, err := os.Stat(target) // a directory is one, too
			if !assert.NoError(t, err, page) || m[2] == "" {
				continue
			}
			content, err := os.ReadFile(target)
			require.NoError(t, err)
			assert.Contains(t, anchors(string(content)), m[2], "%s links to %s", page, m[0])
		}
	}
}

var punctuation = regexp.MustCompile(`[^a-z0-9 _-]`)

// anchors returns the names by which a page's headings can be linked to.
func anchors(page string) []string {
	var out []string
	for line := range strings.SplitSeq(page, "\n") {
		if title := strings.TrimLeft(line, "#"); title != line && strings.HasPrefix(title, " ") {
			title = punctuation.ReplaceAllString(strings.ToLower(title[1:]), "")
			out = append(out, strings.ReplaceAll(title, " ", "-"))
		}
	}
	return out
}

// conversations are the commands that a session of lines and replies cannot
// show: they end the connection's replies or the server.
var conversations = []string{
	"shutdown", "monitor", "subscribe", "unsubscribe", "psubscribe", "punsubscribe", "ssubscribe", "sunsubscribe",
}

// commandPages are the pages that describe commands.
func commandPages(t *testing.T) []string {
	t.Helper()
	found, err := filepath.Glob("commands/*.md")
	require.NoError(t, err)
	require.Greater(t, len(found), 5)
	return found
}

// TestCommandsPage compares the commands that commands/*.md describe with those
// that the server has, subcommands included, and demands an example of each
// command.
func TestCommandsPage(t *testing.T) {
	findCLI(t)
	port := start(t)
	have := withoutContainers(cli(t, port, []string{"--raw", "COMMAND", "LIST", "FILTERBY", "PATTERN", "*"}, ""))
	slices.Sort(have)

	var described []string
	for _, page := range commandPages(t) {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		described = append(described, describedCommands(string(text))...)
	}
	described = withoutContainers(described)
	slices.Sort(described)
	require.Equal(t, slices.Compact(slices.Clone(described)), described, "described twice")
	require.Equal(t, have, described)

	shown := map[string]bool{}
	var sessions []session
	for _, page := range commandPages(t) {
		sessions = append(sessions, readSessions(t, page)...)
	}
	for _, s := range sessions {
		for _, line := range s.commands() {
			name, _, _ := strings.Cut(line, " ")
			shown[strings.ToLower(name)] = true
		}
	}
	for _, name := range have {
		name, _, _ = strings.Cut(name, "|")
		if !slices.Contains(conversations, name) {
			require.True(t, shown[name], "no session of a page of commands runs %s", name)
		}
	}
}

// withoutContainers drops the names of containers, whose subcommands are there
// too, and the HELP that each of them has.
func withoutContainers(names []string) []string {
	var out []string
	for _, name := range names {
		container := slices.ContainsFunc(names, func(other string) bool { return strings.HasPrefix(other, name+"|") })
		if !container && !strings.HasSuffix(name, "|help") {
			out = append(out, name)
		}
	}
	return out
}

var (
	heading = regexp.MustCompile(`^## ([A-Z][A-Z.]*)$`)
	row     = regexp.MustCompile("^\\| `([A-Z_.]+)( [A-Z-]+)?[^`]*` \\|")
)

// describedCommands returns the commands that a page describes, in the
// server's spelling: by a heading of their own, or by a row of a table whose
// first column is the syntax. The second word of a row is a subcommand's name
// when its first is that of a container.
func describedCommands(page string) []string {
	var out []string
	syntax := false
	for line := range strings.SplitSeq(page, "\n") {
		if m := heading.FindStringSubmatch(line); m != nil {
			out = append(out, strings.ToLower(m[1]))
		}
		if !strings.HasPrefix(line, "|") {
			syntax = false
			continue
		}
		syntax = syntax || strings.HasPrefix(line, "| syntax |")
		if m := row.FindStringSubmatch(line); syntax && m != nil {
			name := strings.ToLower(m[1])
			if slices.Contains(containers, name) && m[2] != "" {
				name += "|" + strings.ToLower(m[2][1:])
			}
			out = append(out, name)
		}
	}
	return out
}

// containers are the commands with subcommands.
var containers = []string{"acl", "client", "cluster", "command", "config", "debug", "function", "latency", "memory", "object", "pubsub", "rl.override", "rl.policy", "script", "sentinel", "slowlog"}
