package docs_test

import (
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/internal/redistest"
	"github.com/headgate-io/headgate/internal/subprocess"
)

// servePages are the blocks that start a server with a file of policies, by the begin of
// each. TestServeBlocks runs them. name is the name of the file in the block.
var servePages = []struct{ page, begin, name, file string }{
	{"caddy.md", "headgate serve", "policies.yaml", "../examples/caddy/policies.yaml"},
	{"haproxy.md", "headgate serve", "policies.yaml", "../examples/haproxy/policies.yaml"},
	{"traefik.md", "headgate serve", "policies.yaml", "../examples/caddy/policies.yaml"},
	{"envoy.md", "headgate serve", "policy.yaml", "../examples/envoy/policy.yaml"},
	{"llm-gateways.md", "headgate serve", "llm.yaml", "../examples/holds/llm.yaml"},
	{"nginx.md", "headgate serve", "edge.yaml", ""}, // the page has the file
}

// elsewhere are blocks that tests outside of this package run, by the file of the test.
var elsewhere = []struct{ page, begin, test string }{
	{"caddy.md", "for i in 1 2 3 4; do curl", "../examples/caddy/caddy_test.go"},
	{"haproxy.md", "for i in 1 2 3 4; do curl", "../examples/haproxy/haproxy_test.go"},
	{"traefik.md", "for i in 1 2 3 4; do curl", "../examples/traefik/traefik_test.go"},
	{"nginx.md", "for i in 1 2 3 4; do curl", "../examples/nginx/nginx_test.go"},
	{"envoy.md", "for i in 1 2 3 4; do curl", "../examples/envoy/envoy_test.go"},
	{"tiers.md", "$ curl -si -H 'X-Api-Key: k1'", "../clients/typescript/test/howto.test.ts"},
}

// notRun are blocks that no test runs, with the reason.
var notRun = []struct{ page, begin, reason string }{
	{"three-nodes.md", "for i in 1 2 3; do\n  scp", "it copies files to other machines by scp and ssh; TestThreeNodes copies them in its own way"},
	{"kubernetes.md", "kubectl create namespace", "it needs a cluster of Kubernetes; TestKubernetes runs the processes of the pods"},
	{"kubernetes.md", "kubectl -n ratelimit get pods", "it needs a cluster of Kubernetes; TestThreeNodes runs the same command on nodes with TLS"},
}

// TestHowtoBlocks demands that a test runs each block of commands of howto, or that notRun
// has the reason why none does.
func TestHowtoBlocks(t *testing.T) {
	type claim struct{ page, begin string }
	claims := map[claim]string{} // to the table that makes the claim; "" for a test
	for _, p := range servePages {
		claims[claim{p.page, p.begin}] = "servePages"
	}
	for _, p := range elsewhere {
		claims[claim{p.page, p.begin}] = "elsewhere"
		test, err := os.ReadFile(p.test)
		require.NoError(t, err)
		assert.True(t, strings.Contains(string(test), p.page), "%s does not name %s", p.test, p.page)
	}
	for _, p := range notRun {
		claims[claim{p.page, p.begin}] = "notRun"
		require.NotEmpty(t, p.reason)
	}
	// A test of this package names its pages, and the begin of each block that it runs.
	var (
		page  = regexp.MustCompile(`(\w+) :?= newHowto\(t, "howto/([^"]*)"\)`)
		block = regexp.MustCompile(`(\w+)\.block\(("(?:[^"\\]|\\.)*")`)
	)
	for _, file := range []string{"howto_test.go", "howto_blocks_test.go"} {
		source, err := os.ReadFile(file)
		require.NoError(t, err)
		for function := range strings.SplitSeq(string(source), "\nfunc ") {
			pages := map[string]string{} // by the name of the variable
			for line := range strings.Lines(function) {
				if m := page.FindStringSubmatch(line); m != nil {
					pages[m[1]] = m[2]
				}
				for _, m := range block.FindAllStringSubmatch(line, -1) {
					begin, err := strconv.Unquote(m[2])
					require.NoError(t, err)
					claims[claim{pages[m[1]], begin}] = "" // the test fails if the page has no such block
				}
			}
		}
	}

	found, err := filepath.Glob("howto/*.md")
	require.NoError(t, err)
	require.NotEmpty(t, found)
	commands := regexp.MustCompile(`(?m)^\$ `)
	used := map[claim]bool{}
	for _, path := range found {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		for _, b := range fencedBlocks(string(text)) {
			if b.language != "sh" && !commands.MatchString(b.text) {
				continue
			}
			run := cliPrompt.MatchString(b.text) || shellPrompt.MatchString(b.text) || // by TestSessions
				strings.HasPrefix(b.text, "$ headgate policy ") // by TestPolicyFiles
			for c := range claims {
				if c.page == filepath.Base(path) && strings.HasPrefix(b.text, c.begin) {
					run, used[c] = true, true
				}
			}
			assert.True(t, run, "no test runs this block of %s; run it like TestCopyKeys does, or say in notRun why not:\n%s", path, b.text)
		}
	}
	for c, by := range claims {
		assert.True(t, used[c] || by == "", "%s names a block of %s that is not there: %q", by, c.page, c.begin)
	}
}

// TestServeBlocks starts the servers of servePages. A server must decide by the policies of
// its file.
func TestServeBlocks(t *testing.T) {
	for _, p := range servePages {
		t.Run(p.page, func(t *testing.T) {
			page := newHowto(t, "howto/"+p.page)
			script, rest, _ := strings.Cut(page.block(p.begin), "\n")
			if p.page == "llm-gateways.md" { // the other lines start LiteLLM, as examples/litellm does
				require.True(t, strings.HasPrefix(rest, "pip install"), rest)
			} else {
				require.Empty(t, rest)
			}
			if p.file == "" {
				page.write(p.name, page.block("# "+p.name))
			} else {
				file, err := os.ReadFile(p.file)
				require.NoError(t, err)
				page.write(p.name, string(file))
			}
			page.alone(script)
			waitFor(t, func() bool { return strings.Contains(page.redis("RL.POLICY LIST"), `1) 1) "name"`) })
		})
	}
}

// TestImportBlocks moves a configuration of envoyproxy/ratelimit as the page says.
func TestImportBlocks(t *testing.T) {
	page := newHowto(t, "howto/from-envoy-ratelimit.md")
	page.write("config.yaml", "domain: edge\ndescriptors:\n  - key: remote_address\n    rate_limit: {unit: hour, requests_per_unit: 50}\n")
	page.shell(page.block("headgate import envoy"))
	page.alone(page.block("headgate serve"))
	waitFor(t, func() bool { return strings.Contains(page.redis("RL.POLICY LIST"), `"edge"`) })
}

// TestCopyKeys copies keys to Headgate and back, as two pages say.
func TestCopyKeys(t *testing.T) {
	redis := redistest.Start(t)
	host, port, err := net.SplitHostPort(redis)
	require.NoError(t, err)
	ours := start(t)
	redisCLI := func(words ...string) string {
		return strings.Join(cli(t, port, append([]string{"-h", host}, words...), ""), "\n")
	}
	headgateCLI := func(words ...string) string { return strings.Join(cli(t, ours, words, ""), "\n") }
	there := strings.NewReplacer("127.0.0.1:6379", redis, "127.0.0.1:7379", "127.0.0.1:"+ours)

	page := newHowto(t, "howto/copy-keys.md")
	copyTo, copyBack := page.block("headgate copy --from redis://127.0.0.1:6379"), page.block("headgate copy --from redis://127.0.0.1:7379")
	page = newHowto(t, "howto/from-redis-scripts.md")
	move, moveBack := page.block("headgate copy --from redis://127.0.0.1:6379"), page.block("headgate copy --from redis://127.0.0.1:7379")
	require.NotContains(t, move, "--to", "the target is the default, which is the address of the page")
	move = strings.TrimSpace(move) + " --to redis://127.0.0.1:7379"

	for _, way := range [][2]string{{copyTo, copyBack}, {move, moveBack}} {
		require.Equal(t, "OK", redisCLI("FLUSHALL"))
		require.Equal(t, "OK", headgateCLI("FLUSHALL"))
		require.Equal(t, "OK", redisCLI("SET", "rl:eve", "7", "EX", "1000"))
		require.Equal(t, "OK", redisCLI("SET", "other", "1"))
		page.shell(there.Replace(way[0]))
		require.Equal(t, `"7"`, headgateCLI("GET", "rl:eve"))
		require.Regexp(t, `\(integer\) (9\d\d|1000)`, headgateCLI("TTL", "rl:eve"))
		require.Equal(t, "(nil)", headgateCLI("GET", "other"))
		require.Equal(t, "(integer) 8", headgateCLI("INCR", "rl:eve"))
		page.shell(there.Replace(way[1]))
		require.Equal(t, `"8"`, redisCLI("GET", "rl:eve"))
		require.Regexp(t, `\(integer\) (9\d\d|1000)`, redisCLI("TTL", "rl:eve"))
	}
}

// TestMemoryBlocks raises maxmemory, and looks at the memory, as the page says.
func TestMemoryBlocks(t *testing.T) {
	page := newHowto(t, "howto/disk-and-memory.md")
	page.alone("headgate serve")
	waitFor(t, func() bool { return strings.Contains(page.redis("RL.LIMIT key 100 1m"), "(integer) 99") })
	page.replace("-h node", "-h "+page.network+"1")
	run := func(block string) []string {
		var out []string
		for line := range strings.Lines(block) {
			out = append(out, page.try("$ "+line))
		}
		return out
	}
	require.Equal(t, []string{"OK\n"}, run(page.block("redis-cli -h "+page.network+"1 -p 7379 CONFIG SET")))
	require.Contains(t, page.redis("CONFIG GET maxmemory"), `"8589934592"`)
	seen := run(page.block("redis-cli -h " + page.network + "1 -p 7379 MEMORY"))
	require.Len(t, seen, 3)
	require.Contains(t, seen[0], `"total.allocated"`)
	require.Regexp(t, `^\(integer\) \d+\n$`, seen[1])
	require.Contains(t, seen[2], `"key"`)
}

// TestMembersAndRecovery changes the members of a cluster, upgrades its nodes and recovers
// it from one of them, as three pages say.
func TestMembersAndRecovery(t *testing.T) {
	members := newHowto(t, "howto/members.md")
	backup := newHowto(t, "howto/backup.md")
	backup.dir = members.dir // its /etc/headgate is that of n1
	page := members
	secret := filepath.Join(page.dir, "peer.secret")
	page.shell("openssl rand -hex 32 > peer.secret; chmod 600 peer.secret")
	// The nodes' secret, and the node that is asked, as if the command ran on n1.
	asking := "headgate cluster --peer " + page.network + "1:7381 --peer-secret-file " + secret
	for _, p := range []*howto{members, backup} {
		p.replace("10.0.0.", page.network)
		p.replace("/etc/headgate/headgate.yaml", filepath.Join(page.dir, "n1.yaml"))
	}
	backup.replace("headgate cluster status", "headgate cluster status --peer-secret-file "+secret)

	status := func() string { return page.try("$ " + asking + " status") }
	nodes := map[string]*subprocess.Process{}
	wipe := func(n string) { require.NoError(t, os.RemoveAll(filepath.Join(page.dir, "data", n))) }
	startNode := func(n string) {
		at := page.network + n[1:]
		page.write(n+".yaml", "node-id: "+n+"\ndata-dir: "+filepath.Join(page.dir, "data", n)+
			"\nlisten: "+at+":7379\nhttp-listen: "+at+":7380\npeer-listen: "+at+":7381\ncluster-listen: "+at+":7383\n"+
			"peer-secret-file: "+secret+"\nbootstrap-expect: 3\njoin: "+page.network+"1:7381,"+page.network+"2:7381,"+page.network+"3:7381\n")
		nodes[n] = page.serve("headgate serve --config " + n + ".yaml")
	}
	member := func(n, role string) bool {
		return regexp.MustCompile(`(?m)^` + n + ` .* (` + role + `) .* up `).MatchString(status())
	}
	gone := func(n string) bool {
		text := status()
		return strings.Contains(text, "as seen by n1") && !strings.Contains(text, "\n"+n+" ")
	}
	ready := func(n string) bool {
		return strings.TrimSpace(page.try("$ curl -s http://"+page.network+n[1:]+":7380/readyz")) == "ready"
	}

	for _, n := range []string{"n1", "n2", "n3"} {
		startNode(n)
	}
	for _, n := range []string{"n1", "n2", "n3"} {
		waitFor(t, func() bool { return member(n, "voter|leader") && ready(n) })
	}
	require.Contains(t, page.redis("RL.LIMIT user:1 100 1d COST 40 SYNC"), "(integer) 60")

	// The upgrade: one node at a time, the leader last.
	leader := strings.TrimSuffix(strings.Fields(status())[1], ",")
	order := append(slices.DeleteFunc([]string{"n1", "n2", "n3"}, func(n string) bool { return n == leader }), leader)
	for _, n := range order {
		require.NoError(t, nodes[n].Stop(20*time.Second))
		startNode(n)
		waitFor(t, func() bool { return ready(n) && member(n, "voter|leader") })
	}

	// Remove n3, and let it join again without its data. Then replace it by n4.
	page.shell(strings.Replace(members.block("headgate cluster remove"), "headgate cluster", asking, 1))
	waitFor(t, func() bool { return gone("n3") })
	require.NoError(t, nodes["n3"].Stop(20*time.Second))
	wipe("n3")
	startNode("n3")
	waitFor(t, func() bool { return member("n3", "voter|nonvoter") })
	startNode("n4")
	page.shell(strings.Replace(members.block("headgate cluster replace"), "headgate cluster", asking, 1))
	waitFor(t, func() bool { return gone("n3") && member("n4", "voter|leader") })
	require.NoError(t, nodes["n3"].Stop(20*time.Second))

	// Lose two of three nodes. The other one leads alone, and the wiped n2 joins.
	require.NoError(t, nodes["n2"].Kill())
	require.NoError(t, nodes["n4"].Kill())
	var steps []string
	for line := range strings.Lines(backup.block("# 1.")) {
		if !strings.HasPrefix(line, "#") {
			steps = append(steps, line)
		}
	}
	require.Len(t, steps, 3)
	require.Regexp(t, `log: committed \d+ of \d+ entries`, backup.try("$ "+steps[0]))
	require.NoError(t, nodes["n1"].Stop(20*time.Second))
	backup.shell(steps[1])
	backup.serve(steps[2])
	waitFor(t, func() bool { return ready("n1") && strings.HasPrefix(status(), "leader n1,") })
	require.Contains(t, page.redis("RL.LIMIT user:1 100 1d COST 10"), "(integer) 50")
	wipe("n2")
	startNode("n2")
	waitFor(t, func() bool { return member("n2", "voter|nonvoter") })
}

// write writes a file into the directory of the page.
func (h *howto) write(name, text string) {
	h.t.Helper()
	require.NoError(h.t, os.WriteFile(filepath.Join(h.dir, name), []byte(text), 0o600))
}

// redis returns the answer of the server at the first address of the test.
func (h *howto) redis(command string) string {
	return h.try("$ redis-cli -h " + h.network + "1 -p 7379 " + command)
}
