package server

import (
	"context"
	"crypto/tls"
	"errors"
	"slices"
	"time"

	"github.com/headgate-io/headgate/cluster/partition"
)

// # Access by other fronts
//
// Over HTTP and gRPC there are three rights, which are opened separately. Each has
// a token of its own, and names of client certificates; beside these the passwords
// of the Redis protocol give what they give there.
//
// A right that nobody has been given anything for is open to everyone, but for
// changes: those are open on the loopback interface alone, and only where nothing
// at all is asked for.

// Right is what a request of another front needs.
type Right uint8

// The rights. Who may change policies may see them, and no more than that.
const (
	RightRead  Right = iota // checks, holds and leases
	RightSee                // policies, counters, callers, what is going on
	RightWrite              // changes of policies and overrides, resets
	rightCount
)

// Port is a front that has rights.
type Port uint8

// The ports.
const (
	PortHTTP Port = iota
	PortGRPC
	portCount
)

// Access says who may what on a port, beside the users of the Redis protocol.
type Access struct {
	// Tokens are those of the rights, "" for none.
	Tokens [rightCount]string
	// Certificates are the names of the clients that may, by right.
	Certificates [rightCount][]string
}

// gives reports whether there is a token or a name for a right.
func (a *Access) gives(right Right) bool {
	return a.Tokens[right] != "" || len(a.Certificates[right]) > 0
}

// Shown is what a request shows of who sends it.
type Shown struct {
	// Address is that of the peer.
	Address string
	// User and Password are those of Authorization, if HasPassword; the user "" is
	// any, and the password may be a token.
	User, Password string
	HasPassword    bool
	// Certificates are the names in the certificate of the peer, which is verified.
	Certificates []string
	// Local: only this machine reaches the port.
	Local bool
}

// Client is who has sent a command: a user, what it calls itself, and its address.
type Client = partition.Client

// Errors of Admit.
var (
	// ErrUnknownClient tells that a request shows nothing, or something wrong.
	ErrUnknownClient = errors.New("send a token or a password: Authorization: Bearer <token>")
	// ErrNoRight tells that the client is known, and may not.
	ErrNoRight = errors.New("this token, password or certificate does not give that right")
	// ErrGuesses is returned where too many passwords have been wrong: by Admit for one
	// that is wrong, whose sender is to be disconnected without an answer, by
	// AdmitAtOnce for any.
	ErrGuesses = errors.New("too many wrong passwords")
)

// Open reports whether a right needs nothing to be shown. Then nothing is looked at:
// behind a gateway Authorization is that of the gateway's own client.
func (c *Caller) Open(port Port, right Right, local bool) bool {
	r := c.srv.runtime.Load()
	access := &r.Access[port]
	if r.RequirePass != "" || access.gives(right) {
		return false
	}
	if right != RightWrite {
		return true
	}
	return local && r.AdminPass == "" && !access.gives(RightRead) && !access.gives(RightSee)
}

// Seen reports whether something is asked for the right to see beside a password.
func (c *Caller) Seen(port Port) bool { return c.srv.runtime.Load().Access[port].gives(RightSee) }

// Admit returns who sends a request that needs a right. Its error is ErrUnknownClient,
// ErrNoRight, ErrGuesses, or that of ctx. What is wrong is answered late, as by AUTH.
func (c *Caller) Admit(ctx context.Context, port Port, shown *Shown, right Right) (Client, error) {
	who, err := c.admit(port, shown, right)
	if err != ErrUnknownClient || !shown.HasPassword {
		return who, err
	}
	s := c.srv
	s.stats.counts[countAuthFailures].Add(1)
	wait, ok := s.logins.fail(s.log, shown.Address, time.Now())
	if !ok {
		return who, ErrGuesses
	}
	select {
	case <-ctx.Done():
		return who, ctx.Err()
	case <-time.After(wait):
		return who, ErrUnknownClient
	}
}

// AdmitAtOnce is Admit for who does not wait long, and may take no answer for a yes. An
// address that has guessed too often is answered ErrGuesses, whatever it shows but a
// certificate.
func (c *Caller) AdmitAtOnce(port Port, shown *Shown, right Right) (Client, error) {
	s, now, looked := c.srv, time.Now(), *shown
	looked.HasPassword = shown.HasPassword && s.guesses.left(shown, now)
	who, err := c.admit(port, &looked, right)
	if err != ErrUnknownClient || !shown.HasPassword {
		return who, err
	}
	s.stats.counts[countAuthFailures].Add(1)
	s.logins.note(s.log, shown.Address, now)
	if !looked.HasPassword {
		return who, ErrGuesses
	}
	s.guesses.fail(shown, now)
	return who, err
}

// admit is Admit without a wait, and without a bound.
func (c *Caller) admit(port Port, shown *Shown, right Right) (Client, error) {
	if c.Open(port, right, shown.Local) {
		return Client{User: userDefault, Name: portNames[port], Addr: shown.Address}, nil
	}
	who, has := c.srv.runtime.Load().rightsOf(port, shown)
	switch {
	case has&(1<<right) != 0:
		return who, nil
	case has != 0:
		return who, ErrNoRight
	}
	return who, ErrUnknownClient
}

// portNames are what clients of a port are called that say no name themselves.
var portNames = [portCount]string{"http", "grpc"}

// allRights has a bit for each.
const allRights = 1<<rightCount - 1

// rightsOf returns who shows something, and a bit for each right that it gives.
func (r *Runtime) rightsOf(port Port, shown *Shown) (who Client, has uint8) {
	access := &r.Access[port]
	who.Addr = shown.Address
	give := func(user, name string, rights uint8) {
		if rights&(1<<RightWrite) != 0 {
			rights |= 1 << RightSee
		}
		if rights&^has != 0 {
			who.User, who.Name = user, name
		}
		has |= rights
	}
	for right := range rightCount {
		for _, name := range shown.Certificates {
			if slices.Contains(access.Certificates[right], name) {
				give("certificate", name, 1<<right)
			}
		}
	}
	if !shown.HasPassword {
		return who, has
	}
	password := []byte(shown.Password)
	is := func(want string) bool { return want != "" && passwordIs(password, want) }
	for right := range rightCount {
		if is(access.Tokens[right]) && shown.User == "" {
			give("token", tokenNames[right], 1<<right)
		}
	}
	if is(r.RequirePass) && (shown.User == "" || shown.User == userDefault) {
		rights := uint8(allRights)
		if r.AdminPass != "" {
			rights &^= 1 << RightWrite
		}
		give(userDefault, portNames[port], rights)
	}
	if is(r.AdminPass) && (shown.User == "" || shown.User == userAdmin) {
		give(userAdmin, portNames[port], allRights)
	}
	return who, has
}

// tokenNames are what those are called who show a token.
var tokenNames = [rightCount]string{"read", "see", "write"}

// CertificateNames are the names in the verified certificate of a TLS peer: its common
// name and its DNS names. There are none without one; nil is no TLS.
func CertificateNames(peer *tls.ConnectionState) []string {
	if peer == nil || len(peer.VerifiedChains) == 0 {
		return nil
	}
	leaf := peer.VerifiedChains[0][0]
	return append([]string{leaf.Subject.CommonName}, leaf.DNSNames...)
}
