package access

import (
	"crypto/subtle"
	"crypto/tls"
	"errors"
	"fmt"
	"slices"

	"github.com/headgate-io/headgate/cluster/partition"
)

// Right is what a request of another front needs.
type Right uint8

// The rights. Who may change policies may see them, and no more than that.
const (
	RightRead  Right = iota // checks, holds and slots
	RightSee                // policies, counters, callers, what is going on
	RightWrite              // changes of policies and overrides, resets
	RightCount
)

// Port is a front that has rights.
type Port uint8

// The ports.
const (
	PortHTTP Port = iota
	PortGRPC
	PortCount
)

// Grants say who may do what on a port, beside the users of the Redis protocol.
type Grants struct {
	// Tokens are those of the rights, "" for none.
	Tokens [RightCount]string
	// Certificates are the names of the clients that may, by right.
	Certificates [RightCount][]string
}

// gives reports whether there is a token or a name for a right.
func (g *Grants) gives(right Right) bool {
	return g.Tokens[right] != "" || len(g.Certificates[right]) > 0
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
	// ErrUnknownClient is returned if a request shows nothing, or something wrong.
	ErrUnknownClient = errors.New("send a token or a password: Authorization: Bearer <token>")
	// ErrNoRight is returned if the client is known, and may not.
	ErrNoRight = errors.New("this token, password or certificate does not give that right")
	// ErrGuesses is returned where too many passwords have been wrong: by Admit for one
	// that is wrong, whose sender is to be disconnected without an answer, by
	// AdmitAtOnce for any.
	ErrGuesses = errors.New("too many wrong passwords")
)

// portNames are what clients of a port are called that say no name themselves.
var portNames = [PortCount]string{"http", "grpc"}

// Names of the users of the Redis protocol.
const (
	UserDefault = "default"
	UserAdmin   = "admin"
)

// Rules are what is asked for now.
type Rules struct {
	// RequirePass is the password of the user default; empty admits everyone.
	RequirePass string
	// AdminPass is the password of the user admin; empty is no such user.
	AdminPass string
	// Grants are those of the ports.
	Grants *[PortCount]Grants
}

// open reports whether a right needs nothing to be shown.
func (r *Rules) open(port Port, right Right, local bool) bool {
	grants := &r.Grants[port]
	if r.RequirePass != "" || grants.gives(right) {
		return false
	}
	if right != RightWrite {
		return true
	}
	return local && r.AdminPass == "" && !grants.gives(RightRead) && !grants.gives(RightSee)
}

// Login reports whether a user and a password go together, and whether that is
// admin. Without a password default takes any, and there is no admin.
func (r *Rules) Login(user, pass []byte) (ok, admin bool) {
	want := r.RequirePass
	admin = string(user) == UserAdmin && r.AdminPass != ""
	switch {
	case admin:
		want = r.AdminPass
	case string(user) != UserDefault:
		return false, false
	}
	return want == "" || passwordIs(pass, want), admin
}

// passwordIs compares in a time that does not depend on where the two differ.
func passwordIs(given []byte, want string) bool {
	return subtle.ConstantTimeCompare(given, []byte(want)) == 1
}

// allRights has a bit for each.
const allRights = 1<<RightCount - 1

// rightsOf returns who shows something, and a bit for each right that it gives.
func (r *Rules) rightsOf(port Port, shown *Shown) (who Client, has uint8) {
	grants := &r.Grants[port]
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
	for right := range RightCount {
		for _, name := range shown.Certificates {
			if slices.Contains(grants.Certificates[right], name) {
				give("certificate", name, 1<<right)
			}
		}
	}
	if !shown.HasPassword {
		return who, has
	}
	password := []byte(shown.Password)
	is := func(want string) bool { return want != "" && passwordIs(password, want) }
	for right := range RightCount {
		if is(grants.Tokens[right]) && shown.User == "" {
			give("token", tokenNames[right], 1<<right)
		}
	}
	if is(r.RequirePass) && (shown.User == "" || shown.User == UserDefault) {
		rights := uint8(allRights)
		if r.AdminPass != "" {
			rights &^= 1 << RightWrite
		}
		give(UserDefault, portNames[port], rights)
	}
	if is(r.AdminPass) && (shown.User == "" || shown.User == UserAdmin) {
		give(UserAdmin, portNames[port], allRights)
	}
	return who, has
}

// tokenNames are what those are called who show a token.
var tokenNames = [RightCount]string{"read", "see", "write"}

// CertificateNames are the names in the verified certificate of a TLS peer: its common
// name and its DNS names. There are none without one; nil is no TLS.
func CertificateNames(peer *tls.ConnectionState) []string {
	if peer == nil || len(peer.VerifiedChains) == 0 {
		return nil
	}
	leaf := peer.VerifiedChains[0][0]
	return append([]string{leaf.Subject.CommonName}, leaf.DNSNames...)
}

// NoPermission is Redis's text for a command that a user may not run.
func NoPermission(user, command string) string {
	return fmt.Sprintf("User %s has no permissions to run the '%s' command", user, command)
}
