package docs_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/headgate-io/headgate/internal/hgtest"
	"github.com/headgate-io/headgate/internal/logbuf"
	"github.com/headgate-io/headgate/internal/subprocess"
)

// TestThreeNodes does what howto/three-nodes.md says, on addresses of the loopback
// interface instead of three machines. Copying is the only step that it does in its own way.
func TestThreeNodes(t *testing.T) {
	page := newHowto(t, "howto/three-nodes.md")
	dir := page.dir
	page.replace("10.0.0.", page.network)
	page.shell(page.block("openssl req -x509"))
	page.shell(page.block("for i in 1 2 3; do\n  openssl"))
	// The data and the files of the three nodes are in a directory for each.
	config := strings.NewReplacer("/var/lib/headgate", dir+"/n$i/data", "/etc/headgate", dir+"/n$i/etc")
	page.shell(config.Replace(page.block("password=")) + "\necho $password > password")
	password, err := os.ReadFile(filepath.Join(dir, "password"))
	require.NoError(t, err)
	nodes := map[string]*subprocess.Process{}
	for _, n := range []string{"n1", "n2", "n3"} {
		etc := filepath.Join(dir, n, "etc")
		require.NoError(t, os.MkdirAll(etc, 0o700))
		for from, to := range map[string]string{n + ".yaml": "headgate.yaml", n + ".pem": "node.pem", n + ".key": "node.key", "ca.pem": "ca.pem"} {
			content, err := os.ReadFile(filepath.Join(dir, from))
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(filepath.Join(etc, to), content, 0o600))
		}
		page.shell(strings.ReplaceAll(page.block("headgate check-config"), "/etc/headgate", etc))
		nodes[n] = page.serve(strings.ReplaceAll(page.block("headgate serve"), "/etc/headgate", etc))
	}
	page.replace("/etc/headgate", dir+"/n1/etc")
	page.replace("$password", strings.TrimSpace(string(password)))
	status := page.block("$ headgate cluster status")
	waitFor(t, func() bool { return matchSession(status, page.try(status)) })
	ready := page.block("$ curl")
	waitFor(t, func() bool { return matchSession(ready, page.try(ready)) })
	page.session(page.block("$ redis-cli -h " + page.network + "1"))

	// Stop the leader. The page asks n2; another node must be asked if n2 led.
	leader := strings.TrimSuffix(strings.Fields(page.try(status))[1], ",")
	require.Contains(t, nodes, leader)
	require.NoError(t, nodes[leader].Stop(20*time.Second))
	after := page.block("$ redis-cli -h " + page.network + "2")
	if leader == "n2" {
		after = strings.Replace(after, page.network+"2", page.network+"3", 1)
	}
	page.session(after)
}

// TestConfigurationExample checks the file of configuration.md as the page says.
func TestConfigurationExample(t *testing.T) {
	page := newHowto(t, configuration)
	page.replace("/etc/headgate", page.dir+"/headgate")
	require.NoError(t, os.Mkdir(filepath.Join(page.dir, "headgate"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(page.dir, "headgate", "policies.yaml"), []byte("policies: {api: {limits: {user: {by: user, rate: 5/m}}}}\n"), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(page.dir, "headgate", "headgate.yaml"), []byte(page.block("# "+page.dir+"/headgate/headgate.yaml")), 0o644))
	page.shell(page.block("headgate check-config"))
}

// howto is a page whose shell blocks a test runs in a directory of its own.
type howto struct {
	t       *testing.T
	dir     string
	network string // the first three numbers of the addresses that the test uses, and a dot
	text    string
}

func newHowto(t *testing.T, name string) *howto {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("the nodes need several addresses of the loopback interface, which only Linux has without setup")
	}
	findCLI(t)
	for _, tool := range []string{"openssl", "curl"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Fatal(tool + " is not installed; make deps installs it")
		}
	}
	text, err := os.ReadFile(name)
	require.NoError(t, err)
	bin, err := hgtest.Binary()
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "bin"), 0o755))
	require.NoError(t, os.Symlink(bin, filepath.Join(dir, "bin", "headgate")))
	// The ports are those of the page. So tests that run beside this one need other addresses.
	network := fmt.Sprintf("127.%d.%d.", 100+os.Getpid()/250%150, 1+os.Getpid()%250)
	return &howto{t: t, dir: dir, network: network, text: string(text)}
}

// replace replaces a text in the blocks that are read from now on.
func (h *howto) replace(old, by string) { h.text = strings.ReplaceAll(h.text, old, by) }

// block returns the block that begins with a text.
func (h *howto) block(begin string) string {
	h.t.Helper()
	for _, block := range fencedBlocks(h.text) {
		if strings.HasPrefix(block.text, begin) {
			return block.text
		}
	}
	h.t.Fatalf("no block begins with %q", begin)
	return ""
}

// fencedBlock is a block of a page, without the fences.
type fencedBlock struct{ language, text string }

var fence = regexp.MustCompile("(?ms)^( *)```(\\w*)\n(.*?)^ *```$")

// fencedBlocks returns the blocks of a page. A block in a list loses the indentation of the list.
func fencedBlocks(page string) (out []fencedBlock) {
	for _, m := range fence.FindAllStringSubmatch(page, -1) {
		out = append(out, fencedBlock{m[2], strings.ReplaceAll("\n"+m[3], "\n"+m[1], "\n")[1:]})
	}
	return out
}

// command returns a run of a script in the directory of the page.
func (h *howto) command(ctx context.Context, script string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", script)
	cmd.Dir = h.dir
	cmd.Env = append(subprocess.Command("bash").Env, "PATH="+filepath.Join(h.dir, "bin")+":"+os.Getenv("PATH"))
	return cmd
}

// shell runs a script, which must succeed.
func (h *howto) shell(script string) {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	out, err := h.command(ctx, script).CombinedOutput()
	require.NoError(h.t, err, "%s\n%s", script, out)
}

// serve runs a node of a cluster until the test ends.
func (h *howto) serve(script string, env ...string) *subprocess.Process {
	h.t.Helper()
	// So that a machine that is busy with other tests loses no leader.
	return h.start(script, append(env, "HEADGATE_RAFT_PROFILE=slow", "HEADGATE_MAX_UNACKED=10s", "HEADGATE_FORWARD_TIMEOUT=10s"))
}

// alone runs a server without data, at the first address of the test, until the test ends.
func (h *howto) alone(script string) {
	h.t.Helper()
	addr := h.network + "1"
	h.start(strings.ReplaceAll(script, "127.0.0.1:7382", addr+":7382"), []string{"HEADGATE_LISTEN=" + addr + ":7379", "HEADGATE_HTTP_LISTEN=" + addr + ":7380"})
}

// start runs a script until the test ends.
func (h *howto) start(script string, env []string) *subprocess.Process {
	h.t.Helper()
	cmd := h.command(context.Background(), "exec "+script)
	cmd.Env = append(cmd.Env, env...)
	log := new(logbuf.Buffer)
	cmd.Stderr = log
	p, err := subprocess.Start(cmd)
	require.NoError(h.t, err)
	h.t.Cleanup(func() {
		_ = p.Kill() // an error means that it has ended
		if h.t.Failed() {
			h.t.Log(log.String())
		}
	})
	return p
}

// try runs the commands of a session, and returns what they print.
func (h *howto) try(session string) string {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	var out strings.Builder
	for line := range strings.Lines(session) {
		if script, ok := strings.CutPrefix(line, "$ "); ok {
			script = strings.Replace(script, "redis-cli ", "redis-cli --no-raw ", 1)
			printed, _ := h.command(ctx, script).CombinedOutput() // a failure prints something else than the page
			out.Write(printed)
		}
	}
	return out.String()
}

// session runs the commands of a session, and compares what they print.
func (h *howto) session(session string) {
	h.t.Helper()
	got := h.try(session)
	require.True(h.t, matchSession(session, got), "the page says:\n%s\nthe commands print:\n%s", session, got)
}

// matchSession reports whether the commands of a session print what it says.
func matchSession(session, got string) bool {
	lines := func(text string) (out []string) {
		for line := range strings.Lines(text) {
			if line = strings.TrimRight(line, " \r\n"); line != "" && !strings.HasPrefix(line, "$ ") {
				out = append(out, line)
			}
		}
		return out
	}
	return matchLines(lines(session), lines(got))
}

// waitFor waits until a condition holds. A busy machine may take long.
func waitFor(t *testing.T, condition func() bool) {
	t.Helper()
	require.Eventually(t, condition, time.Minute, 200*time.Millisecond)
}

// manifest is what the test reads of the StatefulSet in howto/kubernetes.md, and of the
// documents beside it.
type manifest struct {
	Kind string
	Data map[string]string
	Spec struct {
		PublishNotReadyAddresses bool   `yaml:"publishNotReadyAddresses"`
		PodManagementPolicy      string `yaml:"podManagementPolicy"`
		Replicas                 int
		MaxUnavailable           int `yaml:"maxUnavailable"`
		Template                 struct {
			Spec struct {
				TerminationGracePeriodSeconds int `yaml:"terminationGracePeriodSeconds"`
				Containers                    []struct {
					Args []string
					Env  []struct{ Name, Value string }
					// The probes.
					StartupProbe   probe `yaml:"startupProbe"`
					LivenessProbe  probe `yaml:"livenessProbe"`
					ReadinessProbe probe `yaml:"readinessProbe"`
				}
			}
		}
	}
}

type probe struct {
	HTTPGet struct {
		Path string
		Port int
	} `yaml:"httpGet"`
}

// TestKubernetes starts three nodes as the StatefulSet of howto/kubernetes.md would, and
// asks what its probes ask. Addresses of the loopback interface stand for the names of pods.
func TestKubernetes(t *testing.T) {
	page := newHowto(t, "howto/kubernetes.md")
	certs := page.block("openssl req -x509")
	page.shell(strings.Replace(certs, "DNS:*.headgate-nodes.ratelimit.svc.cluster.local",
		"IP:"+page.network+"1,IP:"+page.network+"2,IP:"+page.network+"3", 1))

	byKind := map[string][]manifest{}
	for doc := range strings.SplitSeq(page.block("apiVersion: v1\nkind: ConfigMap"), "\n---\n") {
		var m manifest
		require.NoError(t, yaml.Unmarshal([]byte(doc), &m))
		byKind[m.Kind] = append(byKind[m.Kind], m)
	}
	require.True(t, byKind["Service"][0].Spec.PublishNotReadyAddresses)
	set := byKind["StatefulSet"][0].Spec
	require.Equal(t, "Parallel", set.PodManagementPolicy)
	require.Equal(t, 3, set.Replicas)
	require.Equal(t, 1, byKind["PodDisruptionBudget"][0].Spec.MaxUnavailable)
	container := set.Template.Spec.Containers[0]

	const names = ".headgate-nodes.ratelimit.svc.cluster.local"
	config := byKind["ConfigMap"][0].Data["headgate.yaml"]
	ask := map[string]func(p probe) string{}
	nodes := map[string]*subprocess.Process{}
	for i := range set.Replicas {
		pod, addr := fmt.Sprint("headgate-", i), page.network+strconv.Itoa(i+1)
		inPod := strings.NewReplacer("$(POD_NAME)"+names, addr, "$(POD_NAME)", pod, "0.0.0.0:", addr+":",
			"headgate-0"+names, page.network+"1", "headgate-1"+names, page.network+"2", "headgate-2"+names, page.network+"3",
			"/var/lib/headgate", filepath.Join(page.dir, pod), "/etc/headgate-peers", page.dir, "/etc/headgate", filepath.Join(page.dir, "etc", pod))
		etc := filepath.Join(page.dir, "etc", pod)
		require.NoError(t, os.MkdirAll(etc, 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(etc, "headgate.yaml"), []byte(inPod.Replace(config)), 0o644))
		// Kubernetes sets a variable for each Service, such as the one called headgate.
		env := []string{"HEADGATE_SERVICE_HOST=10.1.2.3", "HEADGATE_PORT=tcp://10.1.2.3:7379"}
		for _, v := range container.Env {
			switch {
			case v.Name == "HEADGATE_REQUIREPASS":
				env = append(env, v.Name+"=sesame")
			case v.Value != "":
				env = append(env, v.Name+"="+inPod.Replace(v.Value))
			}
		}
		nodes[pod] = page.serve("headgate "+inPod.Replace(strings.Join(container.Args, " ")), env...)
		ask[pod] = func(p probe) string {
			return strings.TrimSpace(page.try(fmt.Sprintf("$ curl -s http://%s:%d%s", addr, p.HTTPGet.Port, p.HTTPGet.Path)))
		}
	}
	for pod := range nodes {
		waitFor(t, func() bool { return ask[pod](container.ReadinessProbe) == "ready" })
		require.Equal(t, "ok", ask[pod](container.LivenessProbe))
		require.Equal(t, "ok", ask[pod](container.StartupProbe))
	}
	got := page.try("$ redis-cli -h " + page.network + "3 -p 7379 -a sesame --no-auth-warning CLUSTER SLOTS")
	require.Contains(t, got, "(integer) 7383")

	// A pod that Kubernetes stops answers while it leaves the Service, and ends in time.
	grace := time.Duration(set.Template.Spec.TerminationGracePeriodSeconds) * time.Second
	begun := time.Now()
	require.NoError(t, nodes["headgate-0"].Signal(syscall.SIGTERM))
	waitFor(t, func() bool { return ask["headgate-0"](container.ReadinessProbe) == "not ready" })
	require.Equal(t, "ok", ask["headgate-0"](container.LivenessProbe))
	require.NoError(t, nodes["headgate-0"].Wait())
	require.Less(t, time.Since(begun), grace)
}
