// Package certs keeps the TLS configuration of a server up to date with its PEM files. New
// handshakes use changed files within a second; existing connections keep what they were
// made with. If a changed file cannot be used, the configuration in force stays, and the
// error is logged.
package certs

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// checkEvery is the shortest time between two checks of the files. So there are at most
// three stat calls per second, however many handshakes there are.
const checkEvery = time.Second

// Files names the PEM files of a server, or of a node for connections between nodes.
type Files struct {
	// Parameters is the prefix of the parameters that name the files, for errors: "tls" or
	// "peer-tls".
	Parameters string
	// Cert and Key are the certificate chain and its private key.
	Cert, Key string
	// CA holds the authorities that sign client certificates; "" if there are none.
	CA string
	// ClientAuth says whether clients must show a certificate, if there is a CA.
	ClientAuth tls.ClientAuthType
}

// Reloader serves the TLS configuration made from files that may change.
//
// It checks the files during handshakes, so it needs no goroutine. Unlike file
// notifications, this also notices when Kubernetes replaces symbolic links.
type Reloader struct {
	files   Files
	log     *slog.Logger
	current atomic.Pointer[loaded]

	// mu guards the fields below.
	mu      sync.Mutex
	checked time.Time
	stamps  [3]stamp
}

// loaded is the result of loading the files.
type loaded struct {
	config  *tls.Config
	http2   *tls.Config // config with HTTP/2 as its only protocol
	expires []Expiry
}

// Expiry says when a file expires.
type Expiry struct {
	Parameter, File string
	// At is when the first certificate of a chain expires, or the last of the authorities.
	At time.Time
}

// soon is how long before its expiry a file causes a warning.
const soon = 14 * 24 * time.Hour

// stamp identifies a version of a file.
type stamp struct {
	modified time.Time
	size     int64
	info     os.FileInfo // nil if the file cannot be read
}

func (a stamp) equal(b stamp) bool {
	if a.info == nil || b.info == nil {
		return a.info == b.info
	}
	return a.modified.Equal(b.modified) && a.size == b.size && os.SameFile(a.info, b.info)
}

// New loads files. Its errors name the invalid file.
func New(files Files, log *slog.Logger) (*Reloader, error) {
	r := &Reloader{files: files, log: log, checked: time.Now()}
	// Take the stamps before the files are read. So a change meanwhile is noticed at the
	// next check.
	r.stamps = files.stamps()
	c, err := files.load()
	if err != nil {
		return nil, err
	}
	r.current.Store(c)
	r.Warn()
	return r, nil
}

// Expires returns when the files in force expire.
func (r *Reloader) Expires() []Expiry { return r.current.Load().expires }

// Warn checks the files, and warns of files in force that have expired or will expire soon.
func (r *Reloader) Warn() {
	r.check()
	r.warn()
}

func (r *Reloader) warn() {
	for _, e := range r.Expires() {
		switch left := time.Until(e.At); {
		case left < 0:
			r.log.Warn("a TLS certificate has expired, and is refused: renew it", "parameter", e.Parameter, "file", e.File, "expired", e.At)
		case left < soon:
			r.log.Warn("a TLS certificate expires soon: renew it", "parameter", e.Parameter, "file", e.File, "expires", e.At, "days", int(left.Hours()/24))
		}
	}
}

// TLS returns the configuration for listeners. Each handshake uses the files in their state
// of at most checkEvery ago.
func (r *Reloader) TLS() *tls.Config {
	return r.listening(func(l *loaded) *tls.Config { return l.config })
}

// HTTP2 returns the same as TLS for a listener of HTTP/2.
func (r *Reloader) HTTP2() *tls.Config {
	return r.listening(func(l *loaded) *tls.Config { return l.http2 })
}

func (r *Reloader) listening(of func(*loaded) *tls.Config) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			r.check()
			return of(r.current.Load()), nil
		},
	}
}

// Client returns the configuration for a connection to a peer whose certificate is from the
// same CA. It is valid for connections made now. The caller sets ServerName.
func (r *Reloader) Client() *tls.Config {
	r.check()
	c := r.current.Load().config
	return &tls.Config{MinVersion: c.MinVersion, Certificates: c.Certificates, RootCAs: c.ClientCAs}
}

// Reload reads the files now, even if they have not changed, and logs the outcome.
func (r *Reloader) Reload() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stamps = r.files.stamps()
	r.reload()
}

// check reloads the files if they have changed. If another handshake is already checking,
// it does nothing.
func (r *Reloader) check() {
	if !r.mu.TryLock() {
		return
	}
	defer r.mu.Unlock()
	if time.Since(r.checked) < checkEvery {
		return
	}
	r.checked = time.Now()
	now := r.files.stamps()
	for i, s := range now {
		if !s.equal(r.stamps[i]) {
			r.stamps = now
			r.reload()
			return
		}
	}
}

// reload reads the files and puts them into force. The caller holds mu.
func (r *Reloader) reload() {
	c, err := r.files.load()
	if err != nil {
		r.log.Error("TLS files not usable, the previous ones stay in force", "error", err)
		return
	}
	r.current.Store(c)
	r.log.Info("TLS files loaded", "cert", r.files.Cert, "expires", c.expires[0].At)
	r.warn()
}

func (f Files) stamps() (stamps [3]stamp) {
	for i, name := range []string{f.Cert, f.Key, f.CA} {
		if info, err := os.Stat(name); err == nil {
			stamps[i] = stamp{info.ModTime(), info.Size(), info}
		}
	}
	return stamps
}

// load makes a configuration from the files. Each configuration has its own keys for
// session tickets, so that a session cannot be resumed after a change of the authorities.
func (f Files) load() (*loaded, error) {
	chain, certPEM, err := f.read("cert", f.Cert)
	if err != nil {
		return nil, err
	}
	keyPEM, err := os.ReadFile(f.Key)
	if err != nil {
		return nil, fmt.Errorf("load %s-key %s: %w", f.Parameters, f.Key, err)
	}
	cert, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return nil, fmt.Errorf("load %s-cert %s and %s-key %s: %w", f.Parameters, f.Cert, f.Parameters, f.Key, err)
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{cert}}
	first := chain[0].NotAfter
	for _, one := range chain {
		if one.NotAfter.Before(first) {
			first = one.NotAfter
		}
	}
	l := &loaded{config: c, expires: []Expiry{{f.Parameters + "-cert", f.Cert, first}}}
	if f.CA != "" {
		authorities, _, err := f.read("ca", f.CA)
		if err != nil {
			return nil, err
		}
		c.ClientCAs = x509.NewCertPool()
		c.ClientAuth = f.ClientAuth
		var last time.Time
		for _, one := range authorities {
			c.ClientCAs.AddCert(one)
			if one.NotAfter.After(last) {
				last = one.NotAfter
			}
		}
		l.expires = append(l.expires, Expiry{f.Parameters + "-ca", f.CA, last})
	}
	l.http2 = c.Clone()
	l.http2.NextProtos = []string{"h2"}
	return l, nil
}

// read returns the certificates of a file.
func (f Files) read(which, name string) ([]*x509.Certificate, []byte, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, nil, fmt.Errorf("load %s-%s %s: %w", f.Parameters, which, name, err)
	}
	list, err := parse(data)
	if err != nil {
		return nil, nil, fmt.Errorf("load %s-%s %s: %w", f.Parameters, which, name, err)
	}
	return list, data, nil
}
