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

// The rights. The right to write includes the right to see, but not the right to read.
const (
	RightRead  Right = iota // checks, holds and slots
	RightSee                // policies, counters, callers, activity
	RightWrite              // changes of policies and overrides, resets
	RightCount
)

// Port is a front whose requests need rights.
type Port uint8

// The ports.
const (
	PortHTTP Port = iota
	PortGRPC
	PortCount
)

// Grants says who may do what on a port, in addition to the users of the Redis protocol.
type Grants struct {
	// Tokens are the tokens by right; "" if a right has none.
	Tokens [RightCount]string
	// Certificates are the names of clients' certificates by right.
	Certificates [RightCount][]string
}

// gives reports whether the grants have a token or a certificate's name for a right.
func (g *Grants) gives(right Right) bool {
	return g.Tokens[right] != "" || len(g.Certificates[right]) > 0
}

// Shown holds the credentials of a request, and where the request comes from.
type Shown struct {
	// Address is the peer's address.
	Address string
	// User and Password come from Authorization; they are set if HasPassword is true. An
	// empty User means any user, and the password may then be a token.
	User, Password string
	HasPassword    bool
	// Certificates are the names in the peer's certificate, which TLS has verified.
	Certificates []string
	// Local reports that only this machine can reach the port.
	Local bool
}

// Client is the sender of a command: its user, its own name, and its address.
type Client = partition.Client

// Errors of Admit.
var (
	// ErrUnknownClient means that a request has no credentials, or wrong ones.
	ErrUnknownClient = errors.New("send a token or a password: Authorization: Bearer <token>")
	// ErrNoRight means that the client is known but does not have the right.
	ErrNoRight = errors.New("this token, password or certificate does not grant this right")
	// ErrGuesses means that there were too many wrong passwords. If Admit returns it, this
	// password was wrong too, and the sender must be disconnected without an answer.
	// AdmitAtOnce returns it whether or not the password is correct.
	ErrGuesses = errors.New("too many wrong passwords")
)

// portNames are the names of a port's clients that give no name themselves.
var portNames = [PortCount]string{"http", "grpc"}

// Names of the users of the Redis protocol.
const (
	UserDefault = "default"
	UserAdmin   = "admin"
)

// Rules are the credentials that are valid.
type Rules struct {
	// RequirePass is the password of the user default. If it is empty, everyone is
	// admitted.
	RequirePass string
	// AdminPass is the password of the user admin. If it is empty, that user does not
	// exist.
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

// Login reports whether pass is the password of user, and whether that user is admin. If no
// password is set, the user default accepts any password, and admin does not exist.
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

// passwordIs compares two passwords. The time does not depend on where they differ.
func passwordIs(given []byte, want string) bool {
	return subtle.ConstantTimeCompare(given, []byte(want)) == 1
}

// allRights has a bit for each right.
const allRights = 1<<RightCount - 1

// rightsOf returns the client that shows some credentials, and a bit for each right that
// they grant.
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
// name and its DNS names. Without TLS or a certificate it returns none.
func CertificateNames(peer *tls.ConnectionState) []string {
	if peer == nil || len(peer.VerifiedChains) == 0 {
		return nil
	}
	leaf := peer.VerifiedChains[0][0]
	return append([]string{leaf.Subject.CommonName}, leaf.DNSNames...)
}

// NoPermission returns Redis's error text for a command that a user may not run.
func NoPermission(user, command string) string {
	return fmt.Sprintf("User %s has no permissions to run the '%s' command", user, command)
}
