package main

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/internal/certstest"
	"github.com/headgate-io/headgate/internal/subprocess"
)

// clientHello is what a client of TLS says first.
func clientHello(t *testing.T) []byte {
	near, far := net.Pipe()
	t.Cleanup(func() { near.Close(); far.Close() })
	go func() { _ = tls.Client(near, &tls.Config{InsecureSkipVerify: true}).Handshake() }()
	b := make([]byte, 16<<10)
	n, err := far.Read(b)
	require.NoError(t, err)
	return b[:n]
}

// Clients that begin handshakes and prove nothing take few descriptors, on every port
// of TLS at once. The node keeps what it needs for its own files, and those who finish
// their handshakes are served.
func TestFloodOfHandshakes(t *testing.T) {
	t.Parallel()
	const limit, flood = 300, 150
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	require.NoError(t, certstest.New().Write("node", cert, key))
	data := filepath.Join(dir, "data")
	peers, err := subprocess.Addrs("127.0.0.1", 1)
	require.NoError(t, err)
	p := startCommand(t, subprocess.Command("sh", "-c", fmt.Sprintf(`ulimit -n %d && exec "$0" "$@"`, limit), binary, "serve", "--log-format=json",
		"--listen=127.0.0.1:0", "--tls-listen=127.0.0.1:0", "--http-listen=127.0.0.1:0", "--http-tls-cert", cert, "--http-tls-key", key,
		"--tls-cert", cert, "--tls-key", key, "--maxclients=50", "--data-dir", data, "--peer-listen", peers[0]))
	require.Eventually(t, p.ready, waitLimit, 5*time.Millisecond)
	secure := func() *client {
		conn, err := tls.DialWithDialer(&net.Dialer{Timeout: waitLimit}, "tcp", p.secure, &tls.Config{InsecureSkipVerify: true})
		require.NoError(t, err)
		return newClient(t, conn)
	}
	up := secure()
	require.Equal(t, "+PONG", up.do("PING"))

	hello := clientHello(t)
	most := 0
	for i := range flood {
		for _, address := range []string{p.secure, p.http} {
			c, err := net.Dial("tcp", address)
			require.NoError(t, err)
			t.Cleanup(func() { c.Close() })
			if i%2 == 0 {
				_, err = c.Write(hello)
				require.NoError(t, err)
			}
		}
		if i%10 == 0 {
			open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", p.PID()))
			require.NoError(t, err)
			most = max(most, len(open))
		}
	}
	require.Less(t, most, limit/2)
	require.Equal(t, "+PONG", up.do("PING"))
	begin := time.Now()
	require.Equal(t, "+PONG", secure().do("PING"))
	require.Less(t, time.Since(begin), waitLimit/4)
	conn, err := tls.DialWithDialer(&net.Dialer{Timeout: waitLimit}, "tcp", p.http, &tls.Config{InsecureSkipVerify: true})
	require.NoError(t, err)
	_, err = conn.Write([]byte("GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"))
	require.NoError(t, err)
	page, err := io.ReadAll(conn)
	require.NoError(t, err)
	require.Contains(t, string(page), `headgate_tls_handshake_errors_total{port="http"}`)
	require.Contains(t, string(page), `headgate_tls_certificate_expiry_timestamp_seconds{file="tls-cert"}`)
	require.Contains(t, string(page), `headgate_tls_certificate_expiry_timestamp_seconds{file="http-tls-cert"}`)
	// The operator's tools read the secret, and the node writes a snapshot.
	out, err := command(t, "cluster", "snapshot", "--peer", peers[0], "--peer-secret-file", filepath.Join(data, "peer.secret")).CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.NotContains(t, p.stderr.String(), "too many open files")
	require.Equal(t, "+OK", up.do("CONFIG", "SET", "maxclients", "1000"))
	reply := p.call(t, "INFO", "clients")
	_, in, _ := strings.Cut(reply.Str, "\r\nmaxclients:")
	in, _, _ = strings.Cut(in, "\r\n")
	n, err := strconv.Atoi(in)
	require.NoError(t, err, reply.Str)
	require.Less(t, n, limit, "what is in force")
	require.Contains(t, p.stderr.String(), "too few file descriptors", "for 1000 clients of HTTP")
	t.Cleanup(func() { conn.Close() })
}
