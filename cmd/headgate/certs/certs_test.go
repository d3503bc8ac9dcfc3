package certs_test

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/cmd/headgate/certs"
	"github.com/headgate-io/headgate/internal/certstest"
	"github.com/headgate-io/headgate/internal/logbuf"
)

// fixture is a TLS echo server over files in a temporary directory.
type fixture struct {
	*certstest.Authority
	files    certs.Files
	reloader *certs.Reloader
	log      *logbuf.Buffer
	address  string
}

func start(t *testing.T, clientAuth tls.ClientAuthType) *fixture {
	dir := t.TempDir()
	f := &fixture{Authority: certstest.New(), log: new(logbuf.Buffer), files: certs.Files{Parameters: "tls",
		Cert: filepath.Join(dir, "cert.pem"), Key: filepath.Join(dir, "key.pem"), ClientAuth: clientAuth,
	}}
	if clientAuth != tls.NoClientCert {
		f.files.CA = filepath.Join(dir, "ca.pem")
		require.NoError(t, os.WriteFile(f.files.CA, f.PEM, 0o600))
	}
	f.replace(t, "first")
	var err error
	f.reloader, err = certs.New(f.files, slog.New(slog.NewTextHandler(f.log, nil)))
	require.NoError(t, err)
	listener, err := tls.Listen("tcp", "127.0.0.1:0", f.reloader.TLS())
	require.NoError(t, err)
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			go func() { defer c.Close(); _, _ = io.Copy(c, c) }()
		}
	}()
	f.address = listener.Addr().String()
	return f
}

// replace writes a certificate of that name and its key.
func (f *fixture) replace(t *testing.T, name string) {
	t.Helper()
	require.NoError(t, f.Write(name, f.files.Cert, f.files.Key))
}

// dial makes a connection and echoes a byte over it; the name is the server
// certificate's.
func (f *fixture) dial(t *testing.T, c *tls.Config) (conn *tls.Conn, name string, err error) {
	c.RootCAs = x509.NewCertPool()
	c.RootCAs.AddCert(f.Cert)
	conn, err = tls.Dial("tcp", f.address, c)
	if err != nil {
		return nil, "", err
	}
	t.Cleanup(func() { conn.Close() })
	return conn, conn.ConnectionState().PeerCertificates[0].Subject.CommonName, echo(conn)
}

func echo(conn net.Conn) error {
	if _, err := conn.Write([]byte("x")); err != nil {
		return err
	}
	_, err := io.ReadFull(conn, make([]byte, 1))
	return err
}

func TestReloadWhileServing(t *testing.T) {
	f := start(t, tls.NoClientCert)
	old, name, err := f.dial(t, &tls.Config{})
	require.NoError(t, err)
	require.Equal(t, "first", name)

	f.replace(t, "second")
	require.Eventually(t, func() bool {
		_, name, err := f.dial(t, &tls.Config{})
		require.NoError(t, err, "no handshake fails meanwhile")
		return name == "second"
	}, 10*time.Second, 100*time.Millisecond)
	require.NoError(t, echo(old), "the old connection lives on")

	f.replace(t, "third")
	f.reloader.Reload()
	_, name, err = f.dial(t, &tls.Config{})
	require.NoError(t, err)
	require.Equal(t, "third", name, "Reload does not wait for the next check")
}

func TestUnusableFilesKeepTheOldOnes(t *testing.T) {
	f := start(t, tls.NoClientCert)
	spoil := map[string]func(){
		"garbage":  func() { require.NoError(t, os.WriteFile(f.files.Cert, []byte("garbage"), 0o600)) },
		"missing":  func() { require.NoError(t, os.Remove(f.files.Cert)) },
		"mismatch": func() { cert, _ := f.Issue("x"); require.NoError(t, os.WriteFile(f.files.Cert, cert, 0o600)) },
	}
	for what, do := range spoil {
		do()
		f.reloader.Reload()
		_, name, err := f.dial(t, &tls.Config{})
		require.NoError(t, err, what)
		require.Equal(t, "first", name, what)
		require.Contains(t, f.log.String(), "not usable", what)
		require.Contains(t, f.log.String(), f.files.Cert, what)
	}
	f.replace(t, "good")
	f.reloader.Reload()
	_, name, err := f.dial(t, &tls.Config{})
	require.NoError(t, err)
	require.Equal(t, "good", name)
}

func TestClientCertificates(t *testing.T) {
	cases := []struct {
		auth                       tls.ClientAuthType
		without, trusted, stranger bool
	}{
		{tls.RequireAndVerifyClientCert, false, true, false},
		{tls.VerifyClientCertIfGiven, true, true, false},
	}
	for _, c := range cases {
		f := start(t, c.auth)
		try := func(issuer *certstest.Authority) error {
			config := &tls.Config{}
			if issuer != nil {
				pair, err := tls.X509KeyPair(issuer.Issue("client"))
				require.NoError(t, err)
				// Sent even if the server's list of authorities does not name its issuer.
				config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
			}
			_, _, err := f.dial(t, config)
			return err
		}
		require.Equal(t, c.without, try(nil) == nil, "%v without", c.auth)
		require.Equal(t, c.trusted, try(f.Authority) == nil, "%v trusted", c.auth)
		require.Equal(t, c.stranger, try(certstest.New()) == nil, "%v stranger", c.auth)
	}
}

func TestOldProtocolsAreRefused(t *testing.T) {
	f := start(t, tls.NoClientCert)
	_, _, err := f.dial(t, &tls.Config{MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11})
	require.Error(t, err)
	_, _, err = f.dial(t, &tls.Config{MaxVersion: tls.VersionTLS12})
	require.NoError(t, err)
}

func TestNewNamesTheFile(t *testing.T) {
	f := start(t, tls.RequireAndVerifyClientCert)
	for _, bad := range []certs.Files{
		{Parameters: "tls", Cert: "/nowhere", Key: f.files.Key},
		{Parameters: "tls", Cert: f.files.Cert, Key: "/nowhere"},
		{Parameters: "tls", Cert: f.files.Cert, Key: f.files.Key, CA: "/nowhere"},
	} {
		_, err := certs.New(bad, slog.Default())
		require.ErrorIs(t, err, os.ErrNotExist)
		require.ErrorContains(t, err, "/nowhere")
	}
	_, err := certs.New(certs.Files{Parameters: "tls", Cert: f.files.Cert, Key: f.files.Key, CA: f.files.Key}, slog.Default())
	require.ErrorContains(t, err, "no certificate in the file")
}
