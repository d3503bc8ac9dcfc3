package hgtest

import "errors"

// Password is the requirepass of Trio.Auth.
const Password = "correct horse battery staple"

// Trio is the three kinds of server that a suite talks to.
type Trio struct {
	Plain *Server
	Auth  *Server // asks for Password
	TLS   *Server // shows Cert
	Cert  *Certificate
}

// StartTrio starts the three servers.
func StartTrio() (*Trio, error) {
	cert, err := NewCertificate()
	if err != nil {
		return nil, err
	}
	t := &Trio{Cert: cert}
	for _, s := range []struct {
		server **Server
		config Config
	}{
		{&t.Plain, Config{}},
		{&t.Auth, Config{Password: Password}},
		{&t.TLS, Config{Cert: cert}},
	} {
		if *s.server, err = Start(s.config); err != nil {
			return nil, errors.Join(err, t.Stop())
		}
	}
	return t, nil
}

// Stop stops those that run. Its error names those that had crashed.
func (t *Trio) Stop() error {
	var errs []error
	for _, s := range []*Server{t.Plain, t.Auth, t.TLS} {
		if s != nil {
			errs = append(errs, s.Stop())
		}
	}
	return errors.Join(errs...)
}
