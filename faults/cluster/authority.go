package cluster

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"path/filepath"

	"github.com/headgate-io/headgate/internal/certstest"
)

// authority signs the certificates of a cluster's nodes, and of the runner, which asks them.
type authority struct {
	*certstest.Authority
	dir  string
	pool *x509.CertPool
	own  tls.Certificate
}

// caFile is the authority's certificate in its directory.
const caFile = "ca.pem"

func newAuthority(dir string) (*authority, error) {
	a := &authority{Authority: certstest.New(), dir: dir, pool: x509.NewCertPool()}
	a.pool.AddCert(a.Cert)
	if err := os.WriteFile(filepath.Join(dir, caFile), a.PEM, 0o600); err != nil {
		return nil, err
	}
	var err error
	a.own, err = tls.X509KeyPair(a.Issue("runner"))
	return a, err
}

// certificate is the files of a certificate and its key.
type certificate struct{ cert, key string }

// issue makes a certificate for a node with the given addresses.
func (a *authority) issue(name string, hosts ...string) (certificate, error) {
	files := certificate{filepath.Join(a.dir, name+".pem"), filepath.Join(a.dir, name+".key")}
	return files, a.Write(name, files.cert, files.key, hosts...)
}

// client is the runner's side of connections to nodes.
func (a *authority) client() *tls.Config {
	return &tls.Config{RootCAs: a.pool, Certificates: []tls.Certificate{a.own}}
}
