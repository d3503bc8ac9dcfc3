package hgtest

import (
	"crypto/x509"
	"errors"
	"os"
	"path/filepath"

	"github.com/headgate-io/headgate/internal/certstest"
)

// Certificate is a server's certificate for 127.0.0.1 and localhost with the
// authority that signed it, in PEM files.
type Certificate struct {
	CAFile   string // the authority, for clients to trust
	CertFile string
	KeyFile  string
	Pool     *x509.CertPool // CAFile, loaded
}

// NewCertificate makes an authority that nobody knows, and a certificate signed
// by it. Both are valid for a day.
func NewCertificate() (*Certificate, error) {
	dir, err := tempDir()
	if err != nil {
		return nil, err
	}
	c := &Certificate{
		CAFile:   filepath.Join(dir, "ca.pem"),
		CertFile: filepath.Join(dir, "cert.pem"),
		KeyFile:  filepath.Join(dir, "key.pem"),
		Pool:     x509.NewCertPool(),
	}
	authority := certstest.New()
	c.Pool.AddCert(authority.Cert)
	return c, errors.Join(os.WriteFile(c.CAFile, authority.PEM, 0o600), authority.Write("localhost", c.CertFile, c.KeyFile))
}
