package main

import (
	"bytes"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// top --once prints one plain frame: who is denied, by which limit, and the events.
func TestTopOnce(t *testing.T) {
	t.Parallel()
	p, _ := startDemo(t, t.TempDir())
	var out string
	require.Eventually(t, func() bool {
		b, err := command(t, "top", "--once", "--url=http://"+p.http+"/").CombinedOutput()
		require.NoError(t, err, "%s", b)
		out = string(b)
		return strings.Contains(out, "customer=scraper") && strings.Contains(out, "EVENTS, the newest first\n")
	}, waitLimit, 10*time.Millisecond)
	require.Regexp(t, `\Aheadgate v0\.0\.0-test  n1 leads  127\.0\.0\.1:\d+  up `, out)
	require.Regexp(t, `\nallowed +[1-9]`, out)
	require.Regexp(t, `\n +\d+  @api:customer;customer=scraper +[1-9]\d*\.\d +[0-9.]+ +[1-9]\d*\.\d  api customer\n`, out)
	require.Regexp(t, `\n\d\d:\d\d:\d\d policy   api version 2 by default `, out)
	require.NotContains(t, out, "\x1b")
	require.NotContains(t, out, "NO ANSWER")
}

// What top shows needs the right to see, and a server that does not answer is an error.
func TestTopErrors(t *testing.T) {
	notUnderRace(t)
	t.Parallel()
	p := start(t, "--http-see-token=S", "--http-read-token=R")
	url := "--url=http://" + p.http
	once := func(env string, args ...string) *exec.Cmd {
		cmd := command(t, append([]string{"top", "--once"}, args...)...)
		if env != "" {
			cmd.Env = append(cmd.Env, env)
		}
		return cmd
	}
	for _, args := range [][]string{{url}, {url, "--token=R"}, {url, "--token=wrong"}} {
		require.Contains(t, fails(t, once("", args...)), "give a token with the right to see, in HEADGATE_HTTP_SEE_TOKEN or with --token", args)
	}
	require.NoError(t, once("", url, "--token=S").Run())
	require.NoError(t, once("HEADGATE_HTTP_SEE_TOKEN=S", url).Run())

	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	for _, more := range [][]string{nil, {"--once"}} {
		args := append([]string{"top", "--url=http://" + l.Addr().String()}, more...)
		require.Equal(t, "headgate: "+l.Addr().String()+": connect: connection refused: no server has this port; give --url, or start a server with headgate serve or headgate demo\n", fails(t, command(t, args...)))
	}
	for _, bad := range []string{"127.0.0.1:7380", "redis://127.0.0.1:7379", "http://", ""} {
		require.Contains(t, fails(t, once("", "--url="+bad)), "want the URL of the HTTP port, such as http://127.0.0.1:7380", bad)
	}
	require.Contains(t, fails(t, once("", "--url=http://"+p.redis)), ": is this the HTTP port of a Headgate server?")
	private := httptest.NewUnstartedServer(http.NotFoundHandler())
	private.Config.ErrorLog = log.New(io.Discard, "", 0) // top ends the handshake
	private.StartTLS()
	defer private.Close()
	require.Contains(t, fails(t, once("", "--url="+private.URL)), ": name the authority's certificate in the variable SSL_CERT_FILE")
	other := httptest.NewServer(http.NotFoundHandler())
	defer other.Close()
	require.Contains(t, fails(t, once("", "--url="+other.URL)), "404 Not Found: is this the HTTP port of a Headgate server?")
}

// The token goes to the server of --url alone.
func TestTopDoesNotFollowRedirects(t *testing.T) {
	t.Parallel()
	thief := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("asked") }))
	defer thief.Close()
	s := httptest.NewServer(http.RedirectHandler(thief.URL+"/v1/now", http.StatusFound))
	defer s.Close()
	require.Contains(t, fails(t, command(t, "top", "--once", "--token=S", "--url="+s.URL)), "302 Found")
}

// If no terminal reads, frames follow each other without sequences for terminals, and SIGINT
// ends top with status 0.
func TestTopInAPipe(t *testing.T) {
	notUnderRace(t)
	t.Parallel()
	p := start(t)
	cmd := command(t, "top", "--url=http://"+p.http)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	shown := spawn(t, cmd)
	var text []byte
	for room := make([]byte, 4096); bytes.Count(text, []byte("headgate v0.0.0-test")) < 3; {
		n, err := out.Read(room)
		require.NoError(t, err)
		text = append(text, room[:n]...)
	}
	require.NotContains(t, string(text), "\x1b")
	shown.interrupt(t)
}
