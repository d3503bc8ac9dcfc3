package main

import (
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/headgate-io/headgate/internal/subprocess"
)

// monitoring has the files that users give to Prometheus and Grafana.
const monitoring = "../../examples/monitoring/"

// alertRules are the alerts of the file, by name.
func alertRules(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile(monitoring + "alerts.yml")
	require.NoError(t, err)
	var file struct {
		Groups []struct {
			Rules []struct {
				Alert, Expr string
				Annotations struct{ Runbook string }
			}
		}
	}
	require.NoError(t, yaml.Unmarshal(text, &file))
	rules := map[string]string{}
	for _, g := range file.Groups {
		for _, r := range g.Rules {
			require.NotContains(t, rules, r.Alert)
			require.Equal(t, "docs/runbook.md#"+strings.ToLower(r.Alert), r.Annotations.Runbook)
			rules[r.Alert] = r.Expr
		}
	}
	return rules
}

// Each alert fires when it should and is quiet when it should, as promtool sees it,
// and has its page in the runbook.
func TestAlertRules(t *testing.T) {
	if subprocess.Race() {
		t.Skip("tests the rules with promtool, without Headgate, so there is nothing to race: make main runs it")
	}
	t.Parallel()
	out, err := exec.Command("promtool", "test", "rules", monitoring+"alerts_test.yml").CombinedOutput()
	require.NoError(t, err, "%s", out)
	out, err = exec.Command("promtool", "check", "config", monitoring+"prometheus.yml").CombinedOutput()
	require.NoError(t, err, "%s", out)

	runbook, err := os.ReadFile("../../docs/runbook.md")
	require.NoError(t, err)
	tests, err := os.ReadFile(monitoring + "alerts_test.yml")
	require.NoError(t, err)
	var pages []string
	for line := range strings.Lines(string(runbook)) {
		if name, ok := strings.CutPrefix(line, "### Headgate"); ok {
			pages = append(pages, "Headgate"+strings.TrimSpace(name))
		}
	}
	var alerts []string
	for name := range alertRules(t) {
		alerts = append(alerts, name)
		fires := regexp.MustCompile(`alertname="` + name + `".*value: 1\}\]`)
		quiet := regexp.MustCompile(`alertname="` + name + `".*eval_time: [0-9hms]+\}`)
		assert.Regexp(t, fires, string(tests))
		assert.Regexp(t, quiet, string(tests))
	}
	require.ElementsMatch(t, alerts, pages)
}

// panel is a panel of the dashboard.
type panel struct {
	Title   string
	Targets []struct{ Expr string }
}

func dashboardPanels(t *testing.T) []panel {
	t.Helper()
	text, err := os.ReadFile(monitoring + "dashboard.json")
	require.NoError(t, err)
	var board struct {
		ID     any
		UID    string
		Panels []panel
	}
	require.NoError(t, json.Unmarshal(text, &board))
	require.Nil(t, board.ID)
	require.Equal(t, "headgate", board.UID)
	require.NotEmpty(t, board.Panels)
	return board.Panels
}

// prometheus is a running Prometheus that scrapes a cluster.
type prometheus struct{ addr string }

// startPrometheus has a real Prometheus scrape nodes by the example's
// configuration, but with their addresses and ten times a second.
func startPrometheus(t *testing.T, nodes []*testNode) prometheus {
	t.Helper()
	text, err := os.ReadFile(monitoring + "prometheus.yml")
	require.NoError(t, err)
	targets := make([]string, len(nodes))
	for i, n := range nodes {
		targets[i] = n.http
	}
	rules, err := filepath.Abs(monitoring + "alerts.yml")
	require.NoError(t, err)
	config := string(text)
	for from, to := range map[string]string{
		"interval: 5s":   "interval: 100ms",
		"alerts.yml":     rules,
		"127.0.0.1:7380": strings.Join(targets, "', '"),
	} {
		require.Contains(t, config, from)
		config = strings.ReplaceAll(config, from, to)
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "prometheus.yml")
	require.NoError(t, os.WriteFile(file, []byte(config), 0o600))
	addrs, err := subprocess.Addrs("127.0.0.1", 1)
	require.NoError(t, err)
	spawn(t, subprocess.Command("prometheus", "--config.file="+file, "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+addrs[0]))
	p := prometheus{addrs[0]}
	require.Eventually(t, func() bool {
		r, err := http.Get("http://" + p.addr + "/-/ready")
		if err != nil {
			return false
		}
		r.Body.Close()
		return r.StatusCode == http.StatusOK
	}, waitLimit, 20*time.Millisecond)
	return p
}

// query returns how many series an expression has now, of those with a number.
func (p prometheus) query(t *testing.T, expr string) (series int) {
	t.Helper()
	r, err := http.Get("http://" + p.addr + "/api/v1/query?" + url.Values{"query": {expr}}.Encode())
	require.NoError(t, err)
	defer r.Body.Close()
	var answer struct {
		Status, Error string
		Data          struct{ Result []struct{ Value [2]any } }
	}
	require.NoError(t, json.NewDecoder(r.Body).Decode(&answer))
	require.Equal(t, "success", answer.Status, "%s: %s", expr, answer.Error)
	for _, v := range answer.Data.Result {
		if v.Value[1] != "NaN" {
			series++
		}
	}
	return series
}

// Under load, every query of the dashboard has data, and no alert fires in a
// healthy cluster. A mistyped policy, and the loss of a majority, raise their
// alerts.
func TestDashboardAndAlertsOnACluster(t *testing.T) {
	if subprocess.Race() {
		t.Skip("only reads what nodes show, and other tests race the nodes: make main runs it")
	}
	t.Parallel()
	c := startCluster(t, 3, "--maxmemory=64mb")
	leader := c.leader(t)
	p := startPrometheus(t, c.nodes)
	require.EqualValues(t, 1, leader.call(t, "RL.POLICY", "SET", "api",
		"{limits: {user: {by: user, rate: 1/day}, all: {rate: 1/day, mode: shadow}, app: {by: app, rate: 1/day, mode: soft}}}").Int)
	check := func(n *testNode, policy string) {
		a, err := http.Post("http://"+n.http+"/v1/check", "application/json", strings.NewReader(`{"policy":"`+policy+`"}`))
		require.NoError(t, err)
		a.Body.Close()
	}
	calls := 0
	work := func() {
		for _, n := range c.running() {
			calls++
			n.call(t, "RL.CHECK", "api", "user", strconv.Itoa(calls))
			n.call(t, "RL.CHECK", "api", "user", "eve", "app", "a")
			n.call(t, "RL.CHECK", "api", "app", "a")
			n.call(t, "CL.THROTTLE", "k", "1", "1", "60")
			n.call(t, "EVAL", "return 1", "0")
			check(n, "api")
		}
	}
	fill := strings.NewReplacer("$job", "headgate", "$__rate_interval", "5s")
	for _, panel := range dashboardPanels(t) {
		for _, target := range panel.Targets {
			require.Eventually(t, func() bool {
				work()
				return p.query(t, fill.Replace(target.Expr)) > 0
			}, waitLimit, 10*time.Millisecond, "%s: %s", panel.Title, target.Expr)
		}
	}

	rules := alertRules(t)
	// The first two are the load's own; the others are those of a slow machine, and
	// the last that of a machine whose own disk is nearly full.
	usual := []string{"HeadgateAttributeMissing", "HeadgateNearLimit",
		"HeadgateSlow", "HeadgateFrontSlow", "HeadgateFrontErrors", "HeadgateSlowDisk", "HeadgateLag", "HeadgateLossWindow", "HeadgateDegraded", "HeadgateUncertain", "HeadgateFailover",
		"HeadgateDiskSpace"}
	for name, expr := range rules {
		if !slices.Contains(usual, name) {
			assert.Zero(t, p.query(t, expr), name)
		}
	}
	leader.call(t, "RL.CHECK", "aip")
	raised := func(name string) {
		t.Helper()
		require.Eventually(t, func() bool { return p.query(t, rules[name]) > 0 }, waitLimit, 50*time.Millisecond, name)
	}
	raised("HeadgateUnknownPolicy")
	for range 100 {
		check(leader, "aip")
	}
	raised("HeadgateFrontErrors")
	for _, n := range c.followers(leader) {
		require.NoError(t, n.Kill())
	}
	raised("HeadgateDown")
	raised("HeadgatePeerDown")
	raised("HeadgateNoLeader")
	work()
	raised("HeadgateDegraded")
}
