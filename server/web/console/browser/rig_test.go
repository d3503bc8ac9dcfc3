package browser

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/internal/hgtest"
	"github.com/headgate-io/headgate/internal/poll"
)

// root is the repository.
const root = "../../../.."

var update = flag.Bool("update", false, "write the screenshots of docs/img")

// patience is how long the slowest step of a page may take on a busy machine.
const patience = 20 * time.Second

// browser is the Chromium that all tests share; each test has tabs of its own.
var browser context.Context

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(run(m))
}

// run builds the server, unless there is one, starts Chromium and runs the tests.
func run(m *testing.M) int {
	defer hgtest.Clean()
	dir, err := os.MkdirTemp("", "console")
	if err != nil {
		return failed(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if os.Getenv("HGTEST_BIN") == "" {
		bin := filepath.Join(dir, "headgate")
		if out, err := exec.Command("go", "build", "-C", root, "-o", bin, "./cmd/headgate").CombinedOutput(); err != nil {
			return failed(fmt.Errorf("build the server: %w\n%s", err, out))
		}
		_ = os.Setenv("HGTEST_BIN", bin)
	}
	program, err := exec.LookPath("chromium")
	if err != nil {
		return failed(fmt.Errorf("%w: scripts/test-deps.sh installs it", err))
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(program),
		chromedp.Flag("disable-dev-shm-usage", true), chromedp.Flag("hide-scrollbars", true), chromedp.Flag("lang", "en-GB"),
		chromedp.UserDataDir(filepath.Join(dir, "profile")), chromedp.WSURLReadTimeout(time.Minute))
	if os.Geteuid() == 0 {
		options = append(options, chromedp.NoSandbox)
	}
	allocator, end := chromedp.NewExecAllocator(context.Background(), options...)
	defer end()
	var stop context.CancelFunc
	browser, stop = chromedp.NewContext(allocator)
	defer stop()
	if err := chromedp.Do(browser); err != nil {
		return failed(fmt.Errorf("start Chromium: %w", err))
	}
	return m.Run()
}

func failed(err error) int {
	fmt.Fprintln(os.Stderr, err)
	return 1
}

// tab is a page in the browser. It notes what no page may do.
type tab struct {
	t    testing.TB
	ctx  context.Context
	home string

	mu     sync.Mutex
	wrong  []string        // errors on the browser's console, and requests elsewhere
	allow  []string        // parts of errors that a test expects
	asked  map[string]bool // the addresses that the page has asked
	stream map[network.RequestID]bool
	most   int // streams of events at a time
}

// look is how a tab shows its page.
type look struct {
	width, height int64
	dark          bool
}

var (
	desk  = look{1280, 900, false}
	night = look{1280, 900, true}
	phone = look{360, 740, false}
)

// open opens the console of a node in a new tab, at a fragment such as #now, until the test
// ends. The test fails if the page then has done anything wrong.
func open(t testing.TB, addr, fragment string, l look) *tab {
	t.Helper()
	b := &tab{t: t, home: "http://" + addr + "/", asked: map[string]bool{}, stream: map[network.RequestID]bool{}}
	ctx, cancel := chromedp.NewContext(browser, chromedp.WithNewBrowserContext(), chromedp.WithListener(b.note))
	b.ctx = ctx
	t.Cleanup(func() {
		cancel()
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, w := range b.wrong {
			if !contains(b.allow, w) {
				t.Errorf("the page did wrong: %s", w)
			}
		}
		if b.most > 1 {
			t.Errorf("%d streams of events at a time", b.most)
		}
	})
	scheme := "light"
	if l.dark {
		scheme = "dark"
	}
	call(b, network.Enable, network.EnableParams{})
	call(b, log.Enable, cdp.Empty{})
	call(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
	b.do(chromedp.EmulateViewport(l.width, l.height), chromedp.Navigate(b.home+fragment))
	return b
}

func contains(parts []string, text string) bool {
	for _, p := range parts {
		if strings.Contains(text, p) {
			return true
		}
	}
	return false
}

// note notes an event of the browser.
func (b *tab) note(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		b.asked[e.Request.URL] = true
		u, err := url.Parse(e.Request.URL)
		if err != nil || u.Scheme != "data" && !strings.HasPrefix(e.Request.URL, b.home) {
			b.wrong = append(b.wrong, "request to "+e.Request.URL)
		}
		if strings.HasSuffix(e.Request.URL, "/v1/events") {
			b.stream[e.RequestID] = true
			b.most = max(b.most, len(b.stream))
		}
	case *network.EventLoadingFailed:
		delete(b.stream, e.RequestID)
	case *network.EventLoadingFinished:
		delete(b.stream, e.RequestID)
	case *runtime.EventExceptionThrown:
		b.wrong = append(b.wrong, "exception: "+fmt.Sprint(e.ExceptionDetails.Text, " ", describe(e.ExceptionDetails.Exception)))
	case *runtime.EventConsoleAPICalled:
		b.wrong = append(b.wrong, fmt.Sprintf("console.%s %v", e.Type, describe(e.Args...)))
	case *log.EventEntryAdded:
		if e.Entry.Level == log.EntryLevelError || e.Entry.Level == log.EntryLevelWarning {
			b.wrong = append(b.wrong, e.Entry.Text+" "+e.Entry.URL)
		}
	case *page.EventJavascriptDialogOpening:
		b.wrong = append(b.wrong, "dialog: "+e.Message)
	}
}

// expect allows errors on the browser's console that have a text.
func (b *tab) expect(parts ...string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.allow = append(b.allow, parts...)
}

// call runs a command of the browser's protocol.
func call[P, R any](b *tab, c cdp.Command[P, R], params P) (r R) {
	b.t.Helper()
	r, err := chromedp.Call(b.ctx, c, params)
	require.NoError(b.t, err)
	return r
}

func describe(values ...*runtime.RemoteObject) (list []string) {
	for _, v := range values {
		if v != nil {
			list = append(list, v.Description+string(v.Value))
		}
	}
	return list
}

// do runs actions.
func (b *tab) do(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	require.NoError(b.t, chromedp.Do(b.ctx, actions...))
}

// until waits until an expression of JavaScript is true.
func (b *tab) until(js string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	err := poll.Until(ctx, 50*time.Millisecond, func() bool {
		is, err := chromedp.Run(ctx, chromedp.Evaluate[bool]("Boolean("+js+")"))
		return err == nil && is
	})
	if err != nil {
		require.NoError(b.t, err, "%s\n%s", js, b.text("body"))
	}
}

// ready waits until a page shows its data.
func (b *tab) ready(name string) {
	b.t.Helper()
	b.until(`document.getElementById("main")?.dataset.ready === ` + quoted(name))
}

// visit goes to another page of the console and waits for its data.
func (b *tab) visit(fragment string) {
	b.t.Helper()
	eval[string](b, "location.hash = "+quoted(fragment))
	name, _, _ := strings.Cut(strings.TrimPrefix(fragment, "#"), "?")
	b.ready(name)
}

// eval returns what an expression of JavaScript is.
func eval[T any](b *tab, js string) (v T) {
	b.t.Helper()
	v, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](js))
	require.NoError(b.t, err, js)
	return v
}

// text returns the text of an element as it is shown.
func (b *tab) text(selector string) string {
	b.t.Helper()
	return eval[string](b, "document.querySelector("+quoted(selector)+")?.innerText ?? ''")
}

// shows waits until an element shows a text.
func (b *tab) shows(selector, text string) {
	b.t.Helper()
	b.until("document.querySelector(" + quoted(selector) + ")?.innerText.includes(" + quoted(text) + ")")
}

func quoted(s string) string {
	q, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return string(q)
}

// start starts a server until the test ends.
func start(t testing.TB, args ...string) *hgtest.Server {
	t.Helper()
	s, err := hgtest.Start(hgtest.Config{Args: args})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Stop()) })
	return s
}

// client returns a client of a server until the test ends.
func client(t testing.TB, addr string) *redis.Client {
	c := redis.NewClient(&redis.Options{Addr: addr, Protocol: 3, MaxRetries: -1})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// do runs a command whose reply must not be an error.
func do(t testing.TB, c *redis.Client, args ...any) any {
	t.Helper()
	v, err := c.Do(context.Background(), args...).Result()
	if !errors.Is(err, redis.Nil) {
		require.NoError(t, err, "%.200v", args)
	}
	return v
}
