package docs_test

import (
	"bufio"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/internal/certstest"
	"github.com/headgate-io/headgate/internal/hgtest"
	"github.com/headgate-io/headgate/internal/subprocess"
)

// listedError is an error that a page lists. In its text … stands for a value.
type listedError struct {
	page, text string
	like       *regexp.Regexp
}

var quotedError = regexp.MustCompile("`([^`]+)`")

// notErrors are what the pages name beside the errors.
var notErrors = []string{"CONFIG SET", "CLIENT LIST"}

// listedErrors returns the errors that a page lists: those in the text of errors-calls.md, and
// those in the first columns of tables.
func listedErrors(t *testing.T, page string) []listedError {
	t.Helper()
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	var out []listedError
	seen := map[string]bool{}
	section := ""
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if after, ok := strings.CutPrefix(line, "## "); ok {
			section = after
		}
		switch {
		case page == "errors.md" && section != "By first word":
			continue
		case page == "errors.md" && strings.HasPrefix(line, "| `"): // all columns
		case strings.HasPrefix(line, "| `"):
			line, _, _ = strings.Cut(line[2:], " | ")
		case page != "errors-calls.md" || section == "":
			continue
		}
		for _, m := range quotedError.FindAllStringSubmatch(line, -1) {
			if page == "errors.md" && !strings.Contains(string(text), "| `"+strings.SplitN(m[1], " ", 2)[0]+"` |") {
				continue // no code of an error begins it
			}
			if strings.Contains(m[1], " ") && !seen[m[1]] && !slices.Contains(notErrors, m[1]) {
				seen[m[1]] = true
				out = append(out, listedError{page, m[1], likeError(m[1])})
			}
		}
	}
	return out
}

// likeError returns what an error matches that has a text of a page.
func likeError(text string) *regexp.Regexp {
	parts := strings.Split(strings.ReplaceAll(text, " …", "…"), "…")
	for i := range parts {
		parts[i] = regexp.QuoteMeta(parts[i])
	}
	return regexp.MustCompile(strings.Join(parts, ".*"))
}

var repeated = regexp.MustCompile(`\{([^{}*]+)\*(\d+)\}`)

// written writes out what {x*9} stands for.
func written(line string) string {
	for repeated.MatchString(line) {
		line = repeated.ReplaceAllStringFunc(line, func(s string) string {
			m := repeated.FindStringSubmatch(s)
			n, _ := strconv.Atoi(m[2])
			return strings.Repeat(m[1], n)
		})
	}
	return line
}

// errorReply is an error in what a server has sent.
var errorReply = regexp.MustCompile(`(?m)^-(.*)\r$`)

// replies sends requests on a connection, and returns the errors among the replies.
func replies(t *testing.T, addr string, requests []string) []string {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	defer c.Close()
	require.NoError(t, c.SetDeadline(time.Now().Add(20*time.Second)))
	got := make(chan []byte, 1)
	go func() {
		text, _ := io.ReadAll(c) // an error if the server closes the connection first
		got <- text
	}()
	w := bufio.NewWriter(c)
	for _, line := range append(requests, "QUIT") {
		for request := range strings.SplitSeq(written(line), "|") {
			if raw, ok := strings.CutPrefix(request, "raw "); ok {
				text, err := strconv.Unquote(`"` + strings.ReplaceAll(raw, `"`, `\"`) + `"`)
				require.NoError(t, err)
				_, _ = w.WriteString(text)
				continue
			}
			words := splitWords(request)
			if len(words) == 0 {
				continue
			}
			fmt.Fprintf(w, "*%d\r\n", len(words))
			for _, word := range words {
				word = strings.ReplaceAll(word, `\n`, "\n")
				fmt.Fprintf(w, "$%d\r\n%s\r\n", len(word), word)
			}
		}
	}
	_ = w.Flush() // an error if the server has closed the connection
	var out []string
	for _, m := range errorReply.FindAllStringSubmatch(string(<-got), -1) {
		out = append(out, m[1])
	}
	return out
}

// produce runs the requests of testdata/errors.txt, and returns the errors that come.
func produce(t *testing.T) []string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "policies.yaml"), []byte("policies: {p: {limits: {all: {rate: 5/m}}}}\n"), 0o600))
	text, err := os.ReadFile("testdata/errors.txt")
	require.NoError(t, err)
	var produced []string
	var nodes []*hgtest.Server
	for group := range strings.SplitSeq(strings.ReplaceAll(string(text), "{dir}", dir), "\n\n") {
		var requests []string
		at, stay := "", false
		for line := range strings.Lines(group) {
			line = strings.TrimRight(line, "\n")
			words := strings.Fields(line)
			if len(words) == 0 {
				continue
			}
			switch words[0] {
			case "#":
			case "server", "password":
				c := hgtest.Config{Args: words[1:]}
				if words[0] == "password" {
					c.Password = hgtest.Password
				}
				s, err := hgtest.Start(c)
				require.NoError(t, err)
				t.Cleanup(func() { _ = s.Stop() })
				nodes = []*hgtest.Server{s}
			case "cluster":
				nodes = leaderFirst(t)
			case "groups":
				nodes = leaderFirst(t, "--groups", "2")
			case "node": // 0 is the leader, with several groups that of the first one
				n, err := strconv.Atoi(words[1])
				require.NoError(t, err)
				at = nodes[n].Addr
				if len(words) > 2 {
					at = nodes[n].Cluster
				}
			case "stay":
				stay = true
			default:
				requests = append(requests, line)
			}
		}
		if at == "" && len(nodes) > 0 {
			at = nodes[0].Addr
		}
		if stay {
			c, err := net.Dial("tcp", at)
			require.NoError(t, err)
			t.Cleanup(func() { c.Close() })
			_, err = c.Write([]byte("PING\r\n"))
			require.NoError(t, err)
			_, err = c.Read(make([]byte, 7))
			require.NoError(t, err)
		} else if len(requests) > 0 {
			produced = append(produced, replies(t, at, requests)...)
		}
	}
	return produced
}

// leaderFirst starts three nodes, and returns the leader and the two others.
func leaderFirst(t *testing.T, args ...string) []*hgtest.Server {
	t.Helper()
	c, err := hgtest.StartCluster(append(args, "--raft-profile", "slow", "--forward-timeout", "10s")...)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Stop() })
	leader, err := c.Leader()
	require.NoError(t, err)
	nodes := []*hgtest.Server{leader}
	for _, n := range c.Nodes {
		if n != leader {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

// neverProduced are errors of calls on the pages that no test produces, and why.
var neverProduced = map[string]string{
	"DENIED Headgate is running in protected mode …":                        "the client must be on another machine",
	"CLUSTERDOWN no leader answers, and this command needs one":             "needs a cluster without a leader",
	"UNCERTAIN the change is made, but not every group has confirmed it: …": "one of several groups must lose its leader while a policy is changed",
	"BUSY too many requests are incomplete":                                 "TestHalfRequestsMakeRoom of server/envoy looks at the status of gRPC",
	"BUSY too many clients watch health or use reflection":                  "TestEndlessCallsAreBounded of server/envoy looks at the status of gRPC",
	"argument must be host:port":                                            "the parameters are fixed at the start: see bad value",
	"argument must be a name without spaces":                                "the parameter is fixed at the start: see bad value",
	"argument must be names of certificates, separated by commas":           "the server needs certificates: see bad value",
	"argument must be names of attributes, separated by commas, or *":       "the parameter is fixed at the start: see bad value",
	"ERR A client can only redirect to a single other client":               "needs the id of a connection",
	"ERR No such master with that name":                                     "the node must know of no leader",
	"ERR SHUTDOWN is not available":                                         "only for a server within another program",
	"ERR The specified node is not a master":                                "needs the id of a node",
	"ERR a limit of RL.LIMIT cannot be rounded: its Rounding must be Exact": "only for Go programs that have a server within",
	"only token, fixed and sliding limits of database 0 are leased":         "RL.LEASE answers that there is no lease",
	"ERR policy '…' cannot be read by this node: …":                         "a newer version must have written the policy",
	"ERR a policy may have at most 1000000 overrides":                       "takes a million commands",
	"ERR the entries exceed client-output-buffer-limit, ask for fewer":      "needs a slow log of many MB",
}

// TestErrorsOfCallsCome sends requests to servers, and demands that each error of a call on
// the pages comes, or that another test names it. Each error that comes must be on the pages.
func TestErrorsOfCallsCome(t *testing.T) {
	produced := produce(t)
	var listed []listedError
	for _, page := range errorsPages[:2] {
		listed = append(listed, listedErrors(t, page)...)
	}
	require.Greater(t, len(listed), 250)
	named := namedByTests(t)
	reasons := maps.Clone(neverProduced)
	for _, e := range listed {
		comes := slices.ContainsFunc(produced, e.like.MatchString) || named(e.text)
		_, excused := reasons[e.text]
		delete(reasons, e.text)
		switch {
		case comes && excused:
			t.Errorf("%s: a test produces %q: remove it from neverProduced", e.page, e.text)
		case !comes && !excused:
			t.Errorf("%s: no test produces %q: add a request to testdata/errors.txt, or remove the error from the page", e.page, e.text)
		}
	}
	require.Empty(t, reasons, "not on the pages")
	codes, err := os.ReadFile("errors.md")
	require.NoError(t, err)
	for _, p := range produced {
		code, _, _ := strings.Cut(p, " ")
		if code != "ERR" && strings.Contains(string(codes), "| `"+code+"` |") {
			continue
		}
		if !slices.ContainsFunc(listed, func(e listedError) bool { return e.like.MatchString(p) }) {
			t.Errorf("%v do not list this error: %.200s", errorsPages, p)
		}
	}
}

// namedByTests returns whether another test names an error, by a part of its text or by the
// variable that has the text.
func namedByTests(t *testing.T) func(text string) bool {
	t.Helper()
	var tests, code strings.Builder
	require.NoError(t, fs.WalkDir(os.DirFS(".."), ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "node_modules" || strings.HasPrefix(d.Name(), ".v") || name == "docs"):
			return fs.SkipDir
		case !strings.HasSuffix(name, ".go"):
			return nil
		}
		text, err := os.ReadFile(filepath.Join("..", name))
		if strings.HasSuffix(name, "_test.go") {
			tests.Write(text)
		} else {
			code.Write(text)
		}
		return err
	}))
	words := make(map[string]bool)
	for w := range strings.FieldsFuncSeq(tests.String(), func(r rune) bool { return r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
		words[w] = true
	}
	return func(text string) bool {
		longest := ""
		for _, part := range fixed(strings.ReplaceAll(text, "…", "%s")) {
			if len(part) > len(longest) {
				longest = part
			}
		}
		longest = strings.TrimPrefix(longest, "ERR ")
		if strings.Contains(tests.String(), longest) {
			return true
		}
		for line := range strings.Lines(code.String()) {
			if before, _, ok := strings.Cut(line, longest); ok {
				if m := assigned.FindStringSubmatch(before); m != nil && words[m[1]] {
					return true
				}
			}
		}
		return false
	}
}

// assigned is the beginning of a line that gives a variable or constant its value.
var assigned = regexp.MustCompile(`^\s*(?:const |var )?(\w+)\s*=\s`)

// neverAtStart are errors of errors-start.md whose texts no test produces or names, by the
// reason.
var neverAtStart = map[string][]string{
	"the disk must have damaged data, or data of another version or node": {
		`data directory of another node: it belongs to node …, not to …`,
		`malformed founding`,
		`…; wipe this node's data and join again`,
		`unknown format version: … has version …, this build knows … to …; …`,
		`unreadable effects: version …`,
	},
	"several nodes must found a cluster in a wrong way, or lose their data while they do": {
		`… has never answered: …`,
		`waiting for … to propose the cluster`,
		`bootstrap-expect is 0, so this node founds no cluster: start the cluster that this node should join, or give all founders the same bootstrap-expect`,
		`bootstrap-expect is …, and must be more than half of the … nodes (this node and the nodes in join): otherwise two groups of nodes could each found a cluster. Raise bootstrap-expect, or name fewer addresses in join`,
		`founder … has lost its data, and so does not know what it agreed to`,
		`propose to found a cluster: …`,
		`found the cluster: …`,
		`…: this node has agreed to found a cluster with …, and was started with …`,
		`…, and this node was started with …`,
		`this node has been removed from the cluster; stop the node, or wipe its data directory and start it again, so that it joins`,
	},
	"two nodes must have different secrets or versions, and tests look at parts of some texts only": {
		`peer secret: this node requires one and the peer has none`,
		`peer secret: the peer has one and this node has none`,
		`peer secret: the two do not share a secret`,
		`peer secret: the two do not share a secret: give both the same peer-secret-file`,
		`peer secret: the peer's proof is wrong`,
		`peer secret: this side has one and the node has none: give both the same peer-secret-file`,
		`peer secret: the node's proof is wrong`,
		`no common version of the peer protocol: this node speaks …, the peer …`,
		`no common version of the peer protocol: this side speaks …, the node …`,
		`the node does not serve this, or not yet`,
		`node refuses the connection, status …`,
	},
	"a cluster must change its members or clock, and tests look at a part of one text only": {
		`the cluster clock is ahead of the leader's wall clock and cannot be set back; wait until the wall clock has caught up, or restart all nodes with empty data directories (it is ahead by …)`,
		`… cannot replace …: it already has a vote. The cluster would lose one voter. Nothing was changed. If … was started to replace …, run headgate cluster remove …`,
		`… is a member at …, not at …`,
		`this leader has set the cluster clock, but the next leader may not know the change: …`,
	},
	"the parameter refuses such a value first, or the text is in the log only": {
		`peer address …: want host:port, as other nodes reach it`,
		`too few file descriptors for maxclients`,
		`node id …: want 1 to … printable ASCII characters without spaces, commas and =`,
	},
}

// TestErrorsOfStartsCome is TestErrorsOfCallsCome for the commands of testdata/starts.txt.
func TestErrorsOfStartsCome(t *testing.T) {
	t.Parallel()
	bin, err := hgtest.Binary()
	require.NoError(t, err)
	dir := t.TempDir()
	file := func(name, text string, mode os.FileMode) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
		require.NoError(t, os.Chmod(filepath.Join(dir, name), mode))
	}
	file("unknown.yaml", "requirepas: x\n", 0o600)
	file("two.yaml", "maxclients: 10\n---\nmaxclients: 10\n", 0o600)
	file("lines.yaml", "- a\n", 0o600)
	file("list.yaml", "listen: [a]\n", 0o600)
	file("novalue.yaml", "listen:\n", 0o600)
	file("twice.yaml", "maxclients: 10\nmaxclients: 20\n", 0o600)
	authority := certstest.New()
	require.NoError(t, authority.Write("localhost", filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")))
	require.NoError(t, authority.Write("localhost", filepath.Join(dir, "othercert.pem"), filepath.Join(dir, "otherkey.pem")))
	pem, err := os.ReadFile(filepath.Join(dir, "cert.pem"))
	require.NoError(t, err)
	file("cut.pem", string(pem[:len(pem)/2]), 0o600)
	file("garbled.pem", strings.Replace(string(pem), "\n", "\n!", 1), 0o600)
	file("wrong.pem", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", 0o600)
	file("trusted.pem", strings.ReplaceAll(string(pem), " CERTIFICATE", " TRUSTED CERTIFICATE"), 0o600)
	file("text", "text\n", 0o600)
	file("empty", "", 0o600)
	file("open", strings.Repeat("x", 64)+"\n", 0o644)
	file("short", "x\n", 0o600)
	file("big", strings.Repeat("x", 1<<20), 0o600)
	file("lines", strings.Repeat(strings.Repeat("x", 64)+"\n", 99), 0o600)

	addrs, err := subprocess.Addrs("127.0.0.1", 3)
	require.NoError(t, err)
	s, err := hgtest.Start(hgtest.Config{Args: []string{"--data-dir", filepath.Join(dir, "data"), "--peer-listen", addrs[0], "--node-id", "n1"}})
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Stop() })

	text, err := os.ReadFile("testdata/starts.txt")
	require.NoError(t, err)
	replacer := strings.NewReplacer("{dir}", dir, "{data}", filepath.Join(dir, "data"), "{peer}", addrs[0], "{free}", addrs[1], "{free2}", addrs[2], "{taken}", s.Addr, `\s`, " ")
	var produced []string
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		cmd := subprocess.Command(bin)
		for _, word := range strings.Fields(line) {
			word = replacer.Replace(word)
			if len(cmd.Args) == 1 && strings.HasPrefix(word, "HEADGATE_") {
				cmd.Env = append(cmd.Env, word)
			} else {
				cmd.Args = append(cmd.Args, word)
			}
		}
		var out strings.Builder
		cmd.Stdout, cmd.Stderr = nil, &out
		p, err := subprocess.Start(cmd)
		require.NoError(t, err)
		ended := make(chan error, 1)
		go func() { ended <- p.Wait() }()
		select {
		case err := <-ended:
			if err == nil {
				t.Errorf("no error: headgate %s", line)
			}
		case <-time.After(20 * time.Second):
			_ = p.Kill()
			t.Errorf("it runs: headgate %s", line)
		}
		for text := range strings.Lines(out.String()) {
			if text, ok := strings.CutPrefix(text, "headgate: "); ok {
				produced = append(produced, strings.TrimSpace(text))
			}
		}
	}
	listed := listedErrors(t, errorsPages[2])
	require.Greater(t, len(listed), 130)
	named := namedByTests(t)
	excused := slices.Concat(slices.Collect(maps.Values(neverAtStart))...)
	for _, e := range listed {
		comes := slices.ContainsFunc(produced, e.like.MatchString) || named(e.text)
		switch i := slices.Index(excused, e.text); {
		case i < 0 && !comes:
			t.Errorf("no test produces %q: add a command to testdata/starts.txt, or remove the error from the page", e.text)
		case i >= 0:
			excused = slices.Delete(excused, i, i+1)
			if comes {
				t.Errorf("a test produces %q: remove it from neverAtStart", e.text)
			}
		}
	}
	require.Empty(t, excused, "not on the page")
	for _, p := range produced {
		if !slices.ContainsFunc(listed, func(e listedError) bool { return e.like.MatchString(p) }) {
			t.Errorf("%s does not list this error: %s", errorsPages[2], p)
		}
	}
}

var httpText = regexp.MustCompile(`(?:detail: (?:fmt\.Sprintf\()?|problem\{http\.Status\w+, "[A-Z]*",\s*(?:fmt\.Sprintf\()?)"([^"]+)"`)

// TestErrorsOfHTTPAreListed compares errors-http.md with the texts in the code of the HTTP port.
func TestErrorsOfHTTPAreListed(t *testing.T) {
	page, err := os.ReadFile("errors-http.md")
	require.NoError(t, err)
	var listed []*regexp.Regexp
	for _, m := range quotedError.FindAllStringSubmatch(string(page), -1) {
		listed = append(listed, regexp.MustCompile("^"+strings.ReplaceAll(regexp.QuoteMeta(m[1]), "…", ".*")+"$"))
	}
	files, err := filepath.Glob("../server/web/*.go")
	require.NoError(t, err)
	texts := 0
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		code, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, m := range httpText.FindAllStringSubmatch(string(code), -1) {
			texts++
			if !slices.ContainsFunc(listed, func(l *regexp.Regexp) bool { return l.MatchString(m[1]) }) {
				t.Errorf("%s: errors-http.md does not list %q", file, m[1])
			}
		}
	}
	require.Greater(t, texts, 15)
}
