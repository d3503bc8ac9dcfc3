package main

import (
	"crypto/tls"
	"log/slog"

	"github.com/headgate-io/headgate/cmd/headgate/certs"
	"github.com/headgate-io/headgate/cmd/headgate/config"
)

// reloaders are the TLS files of the ports; those that are off are nil.
type reloaders struct{ clients, peers *certs.Reloader }

// certificates loads the files of c.
func certificates(c *config.Config, log *slog.Logger) (r reloaders, err error) {
	if c.TLS() {
		if r.clients, err = certs.New(tlsFiles(c), log); err != nil {
			return r, err
		}
	}
	if c.Replicated() && c.PeerTLS() {
		r.peers, err = certs.New(peerFiles(c), log)
	}
	return r, err
}

// reload reads all files again.
func (r reloaders) reload() {
	for _, files := range []*certs.Reloader{r.clients, r.peers} {
		if files != nil {
			files.Reload()
		}
	}
}

// tlsFiles are the files of the clients' ports.
func tlsFiles(c *config.Config) certs.Files {
	auth := map[string]tls.ClientAuthType{
		config.AuthRequired: tls.RequireAndVerifyClientCert,
		config.AuthOptional: tls.VerifyClientCertIfGiven,
		config.AuthNone:     tls.NoClientCert,
	}
	return certs.Files{Parameters: "tls", Cert: c.TLSCert, Key: c.TLSKey, CA: c.TLSCA, ClientAuth: auth[c.TLSAuthClients]}
}

// peerFiles are the files of the peer port. Both ends of a connection between
// nodes show a certificate.
func peerFiles(c *config.Config) certs.Files {
	return certs.Files{Parameters: "peer-tls", Cert: c.PeerTLSCert, Key: c.PeerTLSKey, CA: c.PeerTLSCA, ClientAuth: tls.RequireAndVerifyClientCert}
}
