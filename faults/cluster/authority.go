package cluster

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// authority signs the certificates of a cluster's nodes, and of the runner, which asks them.
type authority struct {
	dir  string
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
	pool *x509.CertPool
	own  tls.Certificate
}

// caFile is the authority's certificate in its directory.
const caFile = "ca.pem"

func newAuthority(dir string) (*authority, error) {
	a := &authority{dir: dir, pool: x509.NewCertPool()}
	var err error
	if a.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		return nil, err
	}
	ca := template("authority")
	ca.IsCA, ca.BasicConstraintsValid, ca.KeyUsage = true, true, x509.KeyUsageCertSign
	der, err := x509.CreateCertificate(rand.Reader, ca, ca, &a.key.PublicKey, a.key)
	if err != nil {
		return nil, err
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		return nil, err
	}
	a.pool.AddCert(a.cert)
	if err := os.WriteFile(filepath.Join(dir, caFile), encode("CERTIFICATE", der), 0o600); err != nil {
		return nil, err
	}
	files, err := a.issue("runner")
	if err != nil {
		return nil, err
	}
	a.own, err = tls.LoadX509KeyPair(files.cert, files.key)
	return a, err
}

// certificate is the files of a certificate and its key.
type certificate struct{ cert, key string }

// issue makes a certificate for a node with the given addresses.
func (a *authority) issue(name string, hosts ...string) (certificate, error) {
	files := certificate{filepath.Join(a.dir, name+".pem"), filepath.Join(a.dir, name+".key")}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return files, err
	}
	t := template(name)
	t.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	for _, h := range hosts {
		t.IPAddresses = append(t.IPAddresses, net.ParseIP(h))
	}
	der, err := x509.CreateCertificate(rand.Reader, t, a.cert, &key.PublicKey, a.key)
	if err != nil {
		return files, err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return files, err
	}
	if err := os.WriteFile(files.cert, encode("CERTIFICATE", der), 0o600); err != nil {
		return files, err
	}
	return files, os.WriteFile(files.key, encode("PRIVATE KEY", secret), 0o600)
}

// client is the runner's side of connections to nodes.
func (a *authority) client() *tls.Config {
	return &tls.Config{RootCAs: a.pool, Certificates: []tls.Certificate{a.own}}
}

func template(name string) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
	}
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}
