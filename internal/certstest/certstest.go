// Package certstest issues certificates for tests, valid for 30 days.
package certstest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"time"
)

// Authority signs certificates for 127.0.0.1 and localhost.
type Authority struct {
	Cert *x509.Certificate
	// PEM is Cert in PEM.
	PEM []byte
	key *ecdsa.PrivateKey
}

// New returns an authority of its own kind.
func New() *Authority { return Until(time.Now().Add(30 * 24 * time.Hour)) }

// Until returns an authority that expires at a time, as all that it signs does.
func Until(expires time.Time) *Authority {
	key := newKey()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: expires,
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der := must(x509.CreateCertificate(rand.Reader, template, template, key.Public(), key))
	return &Authority{must(x509.ParseCertificate(der)), encode("CERTIFICATE", der), key}
}

// Issue returns a certificate of that common name, for servers and clients,
// and its key in PEM. hosts are further IP addresses that it is for.
func (a *Authority) Issue(name string, hosts ...string) (cert, key []byte) {
	k := newKey()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: a.Cert.NotBefore, NotAfter: a.Cert.NotAfter,
		DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	for _, h := range hosts {
		template.IPAddresses = append(template.IPAddresses, net.ParseIP(h))
	}
	der := must(x509.CreateCertificate(rand.Reader, template, a.Cert, k.Public(), a.key))
	return encode("CERTIFICATE", der), encode("EC PRIVATE KEY", must(x509.MarshalECPrivateKey(k)))
}

// Write issues a certificate into two files.
func (a *Authority) Write(name, certFile, keyFile string, hosts ...string) error {
	cert, key := a.Issue(name, hosts...)
	return errors.Join(os.WriteFile(certFile, cert, 0o600), os.WriteFile(keyFile, key, 0o600))
}

func newKey() *ecdsa.PrivateKey { return must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader)) }

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

// must is for calls that fail only if this package asks for the impossible.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
