package envoy_test

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"path/filepath"
	"testing"
	"time"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	grpcpeer "google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/headgate-io/headgate/internal/certstest"
	"github.com/headgate-io/headgate/internal/hgtest"
	"github.com/headgate-io/headgate/internal/respclient"
)

// The port has TLS of its own, whose files are read again when they change, and a
// client certificate opens it by its name.
func TestTLS(t *testing.T) {
	own, other := certstest.New(), certstest.New()
	dir := t.TempDir()
	cert, key, ca := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem"), filepath.Join(dir, "ca.pem")
	require.NoError(t, own.Write("first", cert, key))
	require.NoError(t, os.WriteFile(ca, own.PEM, 0o600))
	s, err := hgtest.Start(hgtest.Config{Args: []string{"--grpc-tls-cert", cert, "--grpc-tls-key", key,
		"--grpc-tls-ca", ca, "--grpc-tls-auth-clients", "optional", "--grpc-read-certs", "gate"}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Stop()) })
	_, err = respclient.Do(s.Addr, 20*time.Second, "RL.POLICY", "SET", "edge", edge)
	require.NoError(t, err)

	pool := x509.NewCertPool()
	pool.AddCert(own.Cert)
	connect := func(certificates ...*tls.Certificate) rls.RateLimitServiceClient {
		c := &tls.Config{RootCAs: pool}
		for _, one := range certificates {
			c.Certificates = append(c.Certificates, *one)
		}
		return rls.NewRateLimitServiceClient(dial(t, s.GRPC, grpc.WithTransportCredentials(credentials.NewTLS(c))))
	}
	of := func(a *certstest.Authority, name string) *tls.Certificate {
		pair, err := tls.X509KeyPair(a.Issue(name))
		require.NoError(t, err)
		return &pair
	}
	// ask returns the name that the server shows, too.
	ask := func(client rls.RateLimitServiceClient) (codes.Code, string) {
		var server grpcpeer.Peer
		_, err := client.ShouldRateLimit(patient(t), request("edge", []string{"free", "1"}), grpc.Peer(&server))
		name := ""
		if info, ok := server.AuthInfo.(credentials.TLSInfo); ok {
			name = info.State.PeerCertificates[0].Subject.CommonName
		}
		return status.Code(err), name
	}
	gate := connect(of(own, "gate"))
	code, shown := ask(gate)
	require.Equal(t, codes.OK, code)
	require.Equal(t, "first", shown)
	for _, refused := range []struct {
		what   string
		client rls.RateLimitServiceClient
		code   codes.Code
	}{
		{"no certificate", connect(), codes.Unauthenticated},
		{"another name", connect(of(own, "eve")), codes.Unauthenticated},
		{"another authority", connect(of(other, "gate")), codes.Unavailable},
		{"no TLS", rls.NewRateLimitServiceClient(dial(t, s.GRPC)), codes.Unavailable},
	} {
		code, _ := ask(refused.client)
		require.Equal(t, refused.code, code, refused.what)
	}

	require.NoError(t, own.Write("second", cert, key))
	require.Eventually(t, func() bool {
		code, shown := ask(connect(of(own, "gate")))
		return code == codes.OK && shown == "second"
	}, 20*time.Second, 100*time.Millisecond)
	code, shown = ask(gate)
	require.Equal(t, codes.OK, code)
	require.Equal(t, "first", shown, "connections that are up stay")
}
