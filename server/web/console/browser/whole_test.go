package browser

import (
	"bytes"
	"context"
	"flag"
	"io"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/internal/hgtest"
)

var whole = flag.Bool("whole", false, "run the tests that take longer, too: make test-console")

func long(t *testing.T) {
	t.Helper()
	if !*whole {
		t.Skip("with -whole")
	}
}

// startCluster starts three nodes with policies and traffic.
func startCluster(t *testing.T) (*hgtest.Cluster, *hgtest.Server) {
	t.Helper()
	k, err := hgtest.StartCluster()
	require.NoError(t, err)
	t.Cleanup(func() { _ = k.Stop() }) // of nodes that were killed it returns an error
	leader, err := k.Leader()
	require.NoError(t, err)
	prepare(t, client(t, leader.Addr))
	for _, n := range k.Nodes {
		load(t, client(t, n.Addr))
	}
	return k, leader
}

// Each page works on a cluster that has lost a node, and says so; and on one that has lost two.
func TestBrokenCluster(t *testing.T) {
	long(t)
	k, was := startCluster(t)
	b := open(t, was.HTTP, "#cluster", desk)
	b.ready("cluster")
	b.shows(".answer", "all 3 nodes are up and none lags")
	b.shot("console-cluster", 0)
	b.do(chromedp.Navigate("about:blank"))

	_, err := k.KillLeader()
	require.NoError(t, err)
	leader, err := k.Leader()
	require.NoError(t, err)
	b = open(t, leader.HTTP, "#cluster", desk)
	b.expect("503 (Service Unavailable)")
	b.ready("cluster")
	b.shows(".answer", "is down")
	b.shows("#alarm", "is down")
	b.shows("main", "If one more node fails")
	b.visit("#now")
	b.shows(".callers", "buyer-")
	b.visit("#policies?name=shop%2Fcheckout")
	b.shows(".diff", "20/m")
	b.visit("#explain?key=" + "%40shop%2Fcheckout%3Auser%3Buser%3Dbuyer-0")
	b.until(`document.querySelector(".answer, .result h2")`)
	b.visit("#playground")

	// Without a majority nobody leads.
	for _, n := range k.Nodes {
		if n != leader && n != was {
			n.Kill()
		}
	}
	b.shows("#alarm", "No leader")
	b.visit("#cluster")
	b.shows(".answer", "No node leads")
	b.visit("#now")
	b.visit("#policies")
	b.visit("#explain?key=user:1")
	b.visit("#playground")
}

// axe finds no fault with the pages, in both colour schemes and at two widths.
func TestAxe(t *testing.T) {
	long(t)
	source, err := os.ReadFile("node_modules/axe-core/axe.min.js")
	require.NoError(t, err, "npm ci brings axe-core")
	s := start(t)
	c := client(t, s.Addr)
	prepare(t, c)
	load(t, c)
	for _, l := range []look{desk, night, phone, {360, 740, true}} {
		b := open(t, s.HTTP, "#now", l)
		b.ready("now")
		b.until(`document.querySelectorAll(".events li").length > 1`)
		eval[bool](b, string(source)+"; true")
		for _, p := range append(pages, "#policies?name=shop%2Fcheckout", "#policies?name=routes%2Fedge", "#explain?policy=api", "#explain?key=%40shop%2Fcheckout%3Auser%3Buser%3Dbuyer-0") {
			b.visit(p)
			if strings.Contains(p, "key=") {
				b.until(`document.querySelector(".answer")`)
			}
			if strings.Contains(p, "routes") {
				b.do(chromedp.Click(".try button"))
				b.until(`document.querySelector(".tried .answer")`)
			}
			eval[bool](b, `(window.axeFound = null, axe.run(document, {resultTypes: ["violations"]}).then(r => window.axeFound = r.violations.map(v => v.id + ": " + v.help + " " + v.nodes.map(n => n.target.join(" ") + " " + (n.any[0]?.message ?? n.failureSummary)).slice(0, 4).join("; "))), true)`)
			b.until("window.axeFound")
			require.Empty(t, eval[[]string](b, "window.axeFound"), "%s %+v", p, l)
		}
	}
}

var cpu = regexp.MustCompile(`(?m)^process_cpu_seconds_total (\S+)`)

// spent returns the processor time of a server.
func spent(t *testing.T, s *hgtest.Server) float64 {
	t.Helper()
	a, err := http.Get("http://" + s.HTTP + "/metrics")
	require.NoError(t, err)
	defer a.Body.Close()
	text, err := io.ReadAll(a.Body)
	require.NoError(t, err)
	found := cpu.FindSubmatch(text)
	require.NotNil(t, found)
	n, err := strconv.ParseFloat(string(found[1]), 64)
	require.NoError(t, err)
	return n
}

// An open page costs the server less than a hundredth of a processor. Fifty pages are
// played by clients that ask what Now asks, as often.
func TestPagesCostLittle(t *testing.T) {
	long(t)
	s := start(t)
	c := client(t, s.Addr)
	prepare(t, c)
	load(t, c)
	const pages, seconds = 50, 8
	alone := spent(t, s)
	wait(t, seconds)
	alone = spent(t, s) - alone
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	ask := func(every time.Duration, method, path, body string) {
		done.Go(func() {
			tick := time.NewTicker(every)
			defer tick.Stop()
			for ctx.Err() == nil {
				r, _ := http.NewRequestWithContext(ctx, method, "http://"+s.HTTP+path, bytes.NewReader([]byte(body)))
				if body != "" {
					r.Header.Set("Content-Type", "application/json")
				}
				if a, err := http.DefaultClient.Do(r); err == nil {
					_, _ = io.Copy(io.Discard, a.Body)
					a.Body.Close()
				}
				select {
				case <-tick.C:
				case <-ctx.Done():
				}
			}
		})
	}
	for range pages {
		ask(2*time.Second, "GET", "/v1/now", "")
		ask(3*time.Second, "GET", "/v1/top?count=10&by=denied", "")
		ask(3*time.Second, "GET", "/v1/counts?count=10", "")
		ask(5*time.Second, "GET", "/v1/history", "")
		for range 10 {
			ask(6*time.Second, "POST", "/v1/explain", `{"key": "@shop/checkout:user;user=buyer-0"}`)
		}
		ask(time.Hour, "GET", "/v1/events", "")
	}
	begin := spent(t, s)
	wait(t, seconds)
	together := spent(t, s) - begin
	cancel()
	done.Wait()
	each := (together - alone) / seconds / pages
	t.Logf("%.3f %% of a processor for each page, %.1f %% without pages", 100*each, 100*alone/seconds)
	require.Less(t, each, 0.01)
}

// wait lets time pass in which something is measured.
func wait(t *testing.T, seconds int) {
	t.Helper()
	select {
	case <-time.After(time.Duration(seconds) * time.Second):
	case <-t.Context().Done():
	}
}
