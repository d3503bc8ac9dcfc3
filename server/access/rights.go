package access

import (
	"crypto/subtle"
	"crypto/tls"
	"errors"
	"fmt"
	"slices"

	"github.com/headgate-io/headgate/cluster/partition"
)

// Right is a right that a request over HTTP or gRPC needs.
type Right uint8

// The rights. A client that may change policies may also see them, and nothing more.
const (
	RightRead  Right = iota // checks, holds and slots
	RightSee                // policies, counters, callers, activity
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
	// Tokens are the tokens by right, "" for none.
	Tokens [RightCount]string
	// Certificates are the names of clients by right.
	Certificates [RightCount][]string
}

// gives reports whether a right has a token or a name.
func (g *Grants) gives(right Right) bool {
	return g.Tokens[right] != "" || len(g.Certificates[right]) > 0
}

// Shown is the credentials of a request, and where it comes from.
type Shown struct {
	// Address is the peer's address.
	Address string
	// User and Password come from Authorization, if HasPassword. The user "" means any,
	// and the password may be a token.
	User, Password string
	HasPassword    bool
	// Certificates are the names in the peer's certificate, which is verified.
	Certificates []string
	// Local reports that only this machine reaches the port.
	Local bool
}

// Client is the sender of a command: a user, its own name, and its address.
type Client = partition.Client

// Errors of Admit.
var (
	// ErrUnknownClient is returned for a request with no credentials, or wrong ones.
	ErrUnknownClient = errors.New("send a token or a password: Authorization: Bearer <token>")
	// ErrNoRight is returned for a known client without the right.
	ErrNoRight = errors.New("this token, password or certificate does not grant this right")
	// ErrGuesses is returned after too many wrong passwords. Admit returns it for a wrong
	// one, and the sender must be disconnected without an answer. AdmitAtOnce returns it
	// for any.
	ErrGuesses = errors.New("too many wrong passwords")
)

// portNames are the names of clients of a port that give none themselves.
var portNames = [PortCount]string{"http", "grpc"}

// Names of the users of the Redis protocol.
const (
	UserDefault = "default"
	UserAdmin   = "admin"
)

// Rules are the credentials that are valid now.
type Rules struct {
	// RequirePass is the password of the user default; empty admits everyone.
	RequirePass string
	// AdminPass is the password of the user admin; without one that user does not exist.
	AdminPass string
	// Grants are the grants by port.
	Grants *[PortCount]Grants
}

// open reports whether a right needs no credentials.
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

// Login reports whether the password is the user's, and whether that is admin. If no
// password is set, default takes any, and admin does not exist.
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

// allRights has a bit for each right.
const allRights = 1<<RightCount - 1

// rightsOf returns the client with some credentials, and a bit for each right that they
// grant.
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

// tokenNames are the names of clients with a token.
var tokenNames = [RightCount]string{"read", "see", "write"}

// CertificateNames returns the names in the verified certificate of a TLS peer: its common
// name and its DNS names. It returns none without a certificate or TLS.
func CertificateNames(peer *tls.ConnectionState) []string {
	if peer == nil || len(peer.VerifiedChains) == 0 {
		return nil
	}
	leaf := peer.VerifiedChains[0][0]
	return append([]string{leaf.Subject.CommonName}, leaf.DNSNames...)
}

// NoPermission returns Redis's text for a command that a user may not run.
func NoPermission(user, command string) string {
	return fmt.Sprintf("User %s has no permissions to run the '%s' command", user, command)
}
