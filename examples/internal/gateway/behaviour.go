package gateway

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Decides shows that the gateway asks once about each request, that what is admitted
// comes whole, and that what is denied is told why: of a policy that admits three
// requests an hour from an address, by a limit named ip.
func (r *Rig) Decides() {
	t := r.t
	t.Helper()
	body := strings.Repeat("0123456789", 20_000)
	for left := 2; left >= 0; left-- {
		a := r.Ask("127.0.0.2", "POST", "/things/?page=2", body)
		require.Equal(t, 200, a.Status, a.Body)
		require.Equal(t, "POST /things/?page=2 Bearer theirs "+body, a.Body)
		if r.Silent { // three pass and the fourth does not: so each is charged once
			require.Empty(t, a.Header.Get("RateLimit"))
			continue
		}
		require.True(t, strings.HasPrefix(a.Header.Get("RateLimit"), `"ip";r=`+strconv.Itoa(left)+";t="), "charged once: %s", a.Header)
		require.Equal(t, `"ip";q=3;w=3600`, a.Header.Get("RateLimit-Policy"))
	}
	for range 20 {
		a := r.Ask("127.0.0.2", "POST", "/things/", "x")
		require.Equal(t, 429, a.Status)
		require.Equal(t, "application/problem+json", a.Header.Get("Content-Type"))
		require.Equal(t, "no-store", a.Header.Get("Cache-Control"))
		require.Contains(t, a.Header.Get("RateLimit"), `"ip";r=0;t=`)
		wait, err := strconv.Atoi(a.Header.Get("Retry-After"))
		require.NoError(t, err)
		require.Greater(t, wait, 1000)
		require.Contains(t, a.Body, `"status":429`)
	}
	require.Equal(t, int64(3), r.Calls.Load())
	require.Equal(t, 200, r.Ask("127.0.0.3", "GET", "/", "").Status, "another client")
	require.Equal(t, int64(1), r.Conns.Load(), "the gateway keeps its connection to Headgate")
}

// Opens kills Headgate, sends some requests, and returns how many of them pass, whole;
// the others are 429. Then it starts Headgate again, and waits until that decides.
func (r *Rig) Opens(requests int) (passed int) {
	t := r.t
	t.Helper()
	r.Headgate.Kill()
	for range requests {
		a := r.Ask("127.0.0.2", "POST", "/", "x")
		if a.Status == 200 {
			require.Equal(t, "POST / Bearer theirs x", a.Body)
			passed++
		} else {
			require.Equal(t, 429, a.Status, a.Body)
		}
	}
	r.restart()
	return passed
}

// Hangs stops Headgate amid its work, and waits until a request passes within a second:
// nobody waits for what is known to hang. Then Headgate goes on, and decides.
func (r *Rig) Hangs() {
	t := r.t
	t.Helper()
	require.NoError(t, r.Headgate.Signal(syscall.SIGSTOP))
	defer func() { _ = r.Headgate.Signal(syscall.SIGCONT) }() // if none passes
	client := Client("127.0.0.7")
	client.Timeout = time.Second
	for begun := time.Now(); ; time.Sleep(200 * time.Millisecond) {
		a, err := client.Get(r.URL)
		if err == nil {
			a.Body.Close()
			if a.StatusCode == 200 {
				require.Empty(t, a.Header.Get("RateLimit"))
				break
			}
		}
		require.Less(t, time.Since(begun), Patience)
	}
	require.NoError(t, r.Headgate.Signal(syscall.SIGCONT))
	r.decides()
}

// Closes kills Headgate, and shows that nothing passes before it is back.
func (r *Rig) Closes(status int) {
	t := r.t
	t.Helper()
	require.Equal(t, 200, r.Ask("127.0.0.2", "GET", "/", "").Status)
	calls := r.Calls.Load()
	r.Headgate.Kill()
	for range 5 {
		require.Equal(t, status, r.Ask("127.0.0.2", "GET", "/", "").Status)
	}
	require.Equal(t, calls, r.Calls.Load())
	r.restart()
}

func (r *Rig) restart() {
	require.NoError(r.t, r.Headgate.Restart())
	r.decides()
}

// decides waits until Headgate is asked again.
func (r *Rig) decides() {
	r.t.Helper()
	r.until(func() bool {
		a := r.Ask("127.0.0.4", "GET", "/", "")
		return a.Header.Get("RateLimit") != "" || r.Silent && a.Status == 200
	})
}

// Routed waits until the gateway knows where requests go: some listen before.
func (r *Rig) Routed() {
	r.t.Helper()
	r.until(func() bool { return r.Ask("127.0.0.9", "GET", "/healthz", "").Status == 200 })
	r.Calls.Store(0)
}

func (r *Rig) until(ok func() bool) {
	r.t.Helper()
	for begun := time.Now(); !ok(); time.Sleep(100 * time.Millisecond) {
		require.Less(r.t, time.Since(begun), Patience)
	}
}

// GoesByRoutes shows that which policy is asked depends on the request: with routes
// whose logins are one an hour from an address, and that ask nothing for /healthz.
func (r *Rig) GoesByRoutes() {
	t := r.t
	t.Helper()
	require.Equal(t, 200, r.Ask("127.0.0.5", "POST", "/v1/login", "x").Status)
	for _, spelt := range []string{"/v1/login", "/v1/login/?next=/healthz", "//v1/./login", "/v1/%6cogin", "/healthz/../v1/login"} {
		require.Equal(t, 429, r.Ask("127.0.0.5", "POST", spelt, "x").Status, spelt)
	}
	for range 5 {
		a := r.Ask("127.0.0.5", "GET", "/healthz", "")
		require.Equal(t, 200, a.Status)
		require.Empty(t, a.Header.Get("RateLimit"))
	}
	require.Equal(t, 200, r.Ask("127.0.0.5", "GET", "/v1/login", "").Status)
}

// DeniesHostileClients shows that of a client who is denied nothing passes, whatever it
// sends: what it can make too long or malformed is no error, upon which it would.
func (r *Rig) DeniesHostileClients() {
	t := r.t
	t.Helper()
	for range 3 {
		require.Equal(t, 200, r.Ask("127.0.0.1", "GET", "/", "").Status)
	}
	calls := r.Calls.Load()
	long := strings.Repeat("a", 60_000)
	get := "GET / HTTP/1.1\r\nHost: x\r\n"
	for _, request := range []string{
		get + "\r\n",
		get + "X-A: a\x01\r\n\r\n",
		get + "X-A: " + long[:14_000] + "\r\n\r\n",
		get + "X-A: " + long + "\r\n\r\n",
		get + strings.Repeat("X-A: "+long[:50]+"\r\n", 500) + "\r\n",
		get + "X-Forwarded-For: 203.0.113.9\r\nX-Forwarded-Uri: /healthz\r\nX-Forwarded-Host: \x01\r\nX-Forwarded-Method: GET\r\n\r\n",
		get + "X-Forwarded-Uri: /healthz\r\nX-Forwarded-Uri: /healthz\r\n\r\n",
		get + "Authorization: Bearer x\r\n\r\n",
		get + "Cookie: \xff\xfe\r\nRange: bytes=0-1\r\nIf-None-Match: *\r\n\r\n",
		get + "Connection: upgrade, x\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n",
		"GET /" + long[:7900] + " HTTP/1.1\r\nHost: x\r\n\r\n",
		"GET /" + long[:8100] + " HTTP/1.1\r\nHost: x\r\n\r\n",
		"GET /?" + long + " HTTP/1.1\r\nHost: x\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: " + long[:2000] + "\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: \x01\r\n\r\n",
		"GET /\xff%01\xc3 HTTP/1.1\r\nHost: \xff\xfe\r\n\r\n",
		"GET /%zz HTTP/1.1\r\nHost: x\r\n\r\n",
		"GET http://y/?a HTTP/1.1\r\nHost: y\r\n\r\n",
		"OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n",
		"GET / HTTP/1.0\r\n\r\n",
		"HEAD / HTTP/1.1\r\nHost: x\r\n\r\n",
		"PURGE / HTTP/1.1\r\nHost: x\r\n\r\n",
		long[:70] + " / HTTP/1.1\r\nHost: x\r\n\r\n",
	} {
		status := r.Raw(request) // some gateways answer OPTIONS * themselves
		require.Less(t, status, 500, "%.60q", request)
		require.Equal(t, calls, r.Calls.Load(), "%d: %.60q", status, request)
	}
}

// FourRequests sends the four requests of a page of docs/howto to a gateway, as its block
// of commands does, but from 127.0.0.9. As the page says, only the fourth is denied.
func FourRequests(t testing.TB, page, url string) {
	t.Helper()
	text, err := os.ReadFile("../../docs/howto/" + page)
	require.NoError(t, err)
	_, script, ok := strings.Cut(string(text), "\n```sh\nfor i in 1 2 3 4; do curl")
	require.True(t, ok, page)
	script, _, _ = strings.Cut("for i in 1 2 3 4; do curl"+script, "```")
	require.Contains(t, script, "http://127.0.0.1:8000")
	script = strings.NewReplacer("curl ", "curl --interface 127.0.0.9 ", "http://127.0.0.1:8000", url).Replace(script)
	out, err := exec.Command("bash", "-c", script).Output()
	require.NoError(t, err)
	require.Equal(t, "200\n200\n200\n429\n", string(out), script)
}
