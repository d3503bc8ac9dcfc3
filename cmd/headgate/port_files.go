package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"slices"

	"github.com/headgate-io/headgate/cmd/headgate/certs"
	"github.com/headgate-io/headgate/cmd/headgate/config"
	"github.com/headgate-io/headgate/cmd/headgate/secret"
	"github.com/headgate-io/headgate/raftlog/peer"
)

// reloaders holds the files of the ports: TLS files, and the secret that nodes share. A
// port that is off has nil.
type reloaders struct {
	clients, peers *certs.Reloader
	// http and grpc are the ports' own files. If a port has none, it uses the files of
	// clients.
	http, grpc *certs.Reloader
	secret     *secret.File
}

// portFiles loads the files that c names. It leaves out a secret that the node will make
// later.
func portFiles(c *config.Config, log *slog.Logger) (reloaders, error) {
	if err := checkDataDir(c.DataDir); err != nil {
		return reloaders{}, err
	}
	r, err := certificates(c, log)
	if err == nil && !lacksSecret(c) {
		err = r.openSecret(c, log)
	}
	return r, err
}

// checkDataDir returns an error if dir is a file.
func checkDataDir(dir string) error {
	if info, err := os.Stat(dir); err == nil && !info.IsDir() {
		return fmt.Errorf("data-dir %s is a file: name a directory, which is made if it is missing", dir)
	}
	return nil
}

// lacksSecret reports whether the node must make its own secret.
func lacksSecret(c *config.Config) bool {
	if !c.Replicated() || c.Several() || c.PeerSecretFile != c.OwnSecret() {
		return false
	}
	_, err := os.Lstat(c.PeerSecretFile)
	return errors.Is(err, fs.ErrNotExist)
}

// openSecret opens the file of the secret that nodes share, if c names one.
func (r *reloaders) openSecret(c *config.Config, log *slog.Logger) (err error) {
	if c.Replicated() && c.PeerSecretFile != "" {
		r.secret, err = secret.Open(c.PeerSecretFile, log)
	}
	return err
}

// makeSecret makes the secret of a node without others. The caller calls it after the ports
// are open, so that a failed start leaves no file behind. makeSecret logs a warning if the
// peer port is unguarded.
func (r *reloaders) makeSecret(c *config.Config, log *slog.Logger) error {
	if c.Replicated() && !c.Guarded() {
		log.Warn("anybody who reaches the peer port controls this node: give the nodes a peer-secret-file, or TLS between them", "peer_listen", c.PeerListen)
	}
	if !lacksSecret(c) {
		return nil
	}
	if err := os.MkdirAll(c.DataDir, 0o755); err != nil {
		return fmt.Errorf("create data directory: %w", err)
	}
	if err := secret.Create(c.PeerSecretFile); err != nil {
		return err
	}
	log.Info("made a secret for the peer port: headgate cluster and nodes that join need it", "file", c.PeerSecretFile)
	return r.openSecret(c, log)
}

// secrets returns the secrets by which nodes prove their membership; nil if there are none.
func (r reloaders) secrets() peer.Secrets {
	if r.secret == nil {
		return nil
	}
	return r.secret.Secrets
}

// certificates loads the TLS files of c.
func certificates(c *config.Config, log *slog.Logger) (r reloaders, err error) {
	if c.TLS() {
		if r.clients, err = certs.New(tlsFiles(c), log); err != nil {
			return r, err
		}
	}
	if r.http = r.clients; c.HTTPTLS() {
		if r.http, err = certs.New(httpTLSFiles(c), log); err != nil {
			return r, err
		}
	}
	if r.grpc = r.clients; c.GRPCTLS() {
		if r.grpc, err = certs.New(grpcTLSFiles(c), log); err != nil {
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
	if r.secret != nil {
		r.secret.Reload()
	}
	r.each((*certs.Reloader).Reload)
}

// each calls fn with the TLS files of the ports. If ports share files, it calls fn once for
// them.
func (r reloaders) each(fn func(*certs.Reloader)) {
	var seen []*certs.Reloader
	for _, files := range []*certs.Reloader{r.clients, r.http, r.grpc, r.peers} {
		if files != nil && !slices.Contains(seen, files) {
			seen = append(seen, files)
			fn(files)
		}
	}
}

// clientAuth maps the modes of tls-auth-clients to those of crypto/tls.
var clientAuth = map[string]tls.ClientAuthType{
	config.AuthRequired: tls.RequireAndVerifyClientCert,
	config.AuthOptional: tls.VerifyClientCertIfGiven,
	config.AuthNone:     tls.NoClientCert,
}

// tlsFiles returns the files of the Redis port.
func tlsFiles(c *config.Config) certs.Files {
	return certs.Files{Parameters: "tls", Cert: c.TLSCert, Key: c.TLSKey, CA: c.TLSCA, ClientAuth: clientAuth[c.TLSAuthClients]}
}

// httpTLSFiles returns the HTTP port's own files.
func httpTLSFiles(c *config.Config) certs.Files {
	cert, key := c.HTTPPair()
	return certs.Files{Parameters: "http-tls", Cert: cert, Key: key, CA: c.HTTPTLSCA, ClientAuth: clientAuth[c.HTTPTLSAuthClients]}
}

// grpcTLSFiles returns the gRPC port's own files.
func grpcTLSFiles(c *config.Config) certs.Files {
	return certs.Files{Parameters: "grpc-tls", Cert: c.GRPCTLSCert, Key: c.GRPCTLSKey, CA: c.GRPCTLSCA, ClientAuth: clientAuth[c.GRPCTLSAuthClients]}
}

// peerFiles returns the files of the peer port. Both ends of a connection between nodes
// must show a certificate.
func peerFiles(c *config.Config) certs.Files {
	return certs.Files{Parameters: "peer-tls", Cert: c.PeerTLSCert, Key: c.PeerTLSKey, CA: c.PeerTLSCA, ClientAuth: tls.RequireAndVerifyClientCert}
}
