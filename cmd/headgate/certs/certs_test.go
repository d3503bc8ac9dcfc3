package certs_test

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
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

// Of two authorities the second is half written: the former ones stay in force, both. A
// chain is treated alike.
func TestHalfWrittenFilesKeepTheOldOnes(t *testing.T) {
	f := start(t, tls.RequireAndVerifyClientCert)
	other := certstest.New()
	both := append(bytes.Clone(f.PEM), other.PEM...)
	client := func(issuer *certstest.Authority) error {
		pair, err := tls.X509KeyPair(issuer.Issue("client"))
		require.NoError(t, err)
		_, _, err = f.dial(t, &tls.Config{GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }})
		return err
	}
	write := func(name string, data []byte) {
		require.NoError(t, os.WriteFile(name, data, 0o600))
		f.reloader.Reload()
	}
	require.Error(t, client(other))
	write(f.files.CA, both)
	require.NoError(t, client(other))
	garbled := bytes.Clone(both)
	garbled[len(f.PEM)+100] = '!'
	for _, half := range [][]byte{both[:len(both)-100], garbled, append(bytes.Clone(f.PEM), "-----BEG"...)} {
		write(f.files.CA, half)
		require.NoError(t, client(f.Authority))
		require.NoError(t, client(other), "what was in force stays")
		require.Contains(t, f.log.String(), "not usable, the previous ones stay in force")
		require.Contains(t, f.log.String(), "load tls-ca "+f.files.CA)
		_, err := certs.New(f.files, slog.New(slog.DiscardHandler))
		require.ErrorContains(t, err, f.files.CA)
	}
	write(f.files.CA, f.PEM)
	require.Error(t, client(other), "a whole file that has one authority less counts")

	cert, key := f.Issue("second")
	require.NoError(t, os.WriteFile(f.files.Key, key, 0o600))
	write(f.files.Cert, append(cert, f.PEM[:len(f.PEM)/2]...))
	_, name, err := f.dial(t, &tls.Config{})
	require.Error(t, err, "without a certificate")
	require.Equal(t, "first", name)
	require.NoError(t, client(f.Authority))
	require.Contains(t, f.log.String(), "load tls-cert "+f.files.Cert)
	write(f.files.Cert, append(cert, f.PEM...))
	require.Contains(t, f.log.String(), "TLS files loaded")
}

// Expiry is reported in time: the first that expires of a chain, the last of
// authorities.
func TestExpiry(t *testing.T) {
	dir := t.TempDir()
	files := certs.Files{Parameters: "peer-tls", Cert: filepath.Join(dir, "cert.pem"), Key: filepath.Join(dir, "key.pem"), CA: filepath.Join(dir, "ca.pem")}
	in := func(d time.Duration) *certstest.Authority {
		return certstest.Until(time.Now().Add(d).Truncate(time.Second))
	}
	year, week, gone := in(365*24*time.Hour), in(7*24*time.Hour+time.Hour), in(-time.Minute)
	load := func(leaf, intermediate *certstest.Authority, authorities ...*certstest.Authority) (log string, expires []certs.Expiry) {
		cert, key := leaf.Issue("x")
		var ca []byte
		for _, a := range authorities {
			ca = append(ca, a.PEM...)
		}
		require.NoError(t, os.WriteFile(files.Cert, append(cert, intermediate.PEM...), 0o600))
		require.NoError(t, os.WriteFile(files.Key, key, 0o600))
		require.NoError(t, os.WriteFile(files.CA, ca, 0o600))
		out := new(logbuf.Buffer)
		r, err := certs.New(files, slog.New(slog.NewTextHandler(out, nil)))
		require.NoError(t, err)
		before := out.String()
		r.Warn()
		require.Equal(t, 2*strings.Count(before, "level=WARN"), strings.Count(out.String(), "level=WARN"), "every time")
		return before, r.Expires()
	}
	log, expires := load(year, year, gone, year)
	require.Empty(t, log)
	require.Equal(t, []certs.Expiry{{"peer-tls-cert", files.Cert, year.Cert.NotAfter}, {"peer-tls-ca", files.CA, year.Cert.NotAfter}}, expires)
	log, expires = load(year, week, year)
	require.Regexp(t, `^\S+ level=WARN msg="a TLS certificate expires soon: renew it" parameter=peer-tls-cert file=\S+ expires=\S+ days=7\n$`, log)
	require.Equal(t, week.Cert.NotAfter, expires[0].At)
	log, _ = load(year, year, gone)
	require.Regexp(t, `^\S+ level=WARN msg="a TLS certificate has expired, and is refused: renew it" parameter=peer-tls-ca `, log)
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
