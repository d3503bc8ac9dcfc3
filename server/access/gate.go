// Package access decides who may do what, from the credentials of a request.
//
// HTTP and gRPC have three rights, which are granted separately. Each right has its own
// token, and its own list of names of client certificates. The passwords of the Redis
// protocol grant rights too.
//
// If no token and no certificate is configured for a right, everyone has the right. The
// right to make changes is different: without a token or certificate, only the loopback
// interface has it, and only if no credentials at all are configured.
//
// The answer to a wrong password is delayed, which bounds the guesses of all clients
// together (guard.go). Where a delay would do harm, the guesses of each address are
// bounded instead (guesses.go). A correct password is never delayed.
package access

import (
	"context"
	"log/slog"
	"time"
)

// Gate admits the requests of ports, and the logins of the Redis protocol. All methods are
// safe for concurrent use.
type Gate struct {
	cfg     Config
	logins  loginGuard
	guesses guesses
}

// Config configures a Gate. All fields must be set.
type Config struct {
	// Rules returns the rules that are in force now.
	Rules func() Rules
	// Wrong is called for each wrong password.
	Wrong  func()
	Logger *slog.Logger
}

// New returns a Gate.
func New(c Config) *Gate { return &Gate{cfg: c} }

// Open reports whether a right needs no credentials. local says whether only this machine
// can reach the port. If Open returns true, the caller should ignore credentials: in a
// request through a gateway, Authorization belongs to the gateway's client.
func (g *Gate) Open(port Port, right Right, local bool) bool {
	rules := g.cfg.Rules()
	return rules.open(port, right, local)
}

// Seen reports whether a token or a certificate grants the right to see, apart from the
// password.
func (g *Gate) Seen(port Port) bool { return g.cfg.Rules().Grants[port].gives(RightSee) }

// Admit returns the client of a request that needs a right. It returns ErrUnknownClient,
// ErrNoRight, ErrGuesses, or the error of ctx. Admit delays an error about credentials, as
// AUTH does.
func (g *Gate) Admit(ctx context.Context, port Port, shown *Shown, right Right) (Client, error) {
	who, err := g.admit(port, shown, right)
	if err != ErrUnknownClient || !shown.HasPassword {
		return who, err
	}
	wait, ok := g.Fail(shown.Address, time.Now())
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

// AdmitAtOnce does the same as Admit for a client that does not wait, because such a client
// may take a missing answer as a yes. If the client's address has guessed wrong too often,
// it returns ErrGuesses, even for correct credentials. Only a certificate is still
// accepted.
func (g *Gate) AdmitAtOnce(port Port, shown *Shown, right Right) (Client, error) {
	now, looked := time.Now(), *shown
	looked.HasPassword = shown.HasPassword && g.guesses.left(shown, now)
	who, err := g.admit(port, &looked, right)
	if err != ErrUnknownClient || !shown.HasPassword {
		return who, err
	}
	g.cfg.Wrong()
	g.logins.note(g.cfg.Logger, shown.Address, now)
	if !looked.HasPassword {
		return who, ErrGuesses
	}
	g.guesses.fail(shown, now)
	return who, err
}

// Fail notes a wrong password, and returns how long the answer to it must wait. If ok is
// false, that would be too long, and the client must be disconnected without an answer.
func (g *Gate) Fail(client string, now time.Time) (wait time.Duration, ok bool) {
	g.cfg.Wrong()
	return g.logins.fail(g.cfg.Logger, client, now)
}

// admit does the work of Admit, without a delay and without a bound of guesses.
func (g *Gate) admit(port Port, shown *Shown, right Right) (Client, error) {
	rules := g.cfg.Rules()
	if rules.open(port, right, shown.Local) {
		return Client{User: UserDefault, Name: portNames[port], Addr: shown.Address}, nil
	}
	who, has := rules.rightsOf(port, shown)
	switch {
	case has&(1<<right) != 0:
		return who, nil
	case has != 0:
		return who, ErrNoRight
	}
	return who, ErrUnknownClient
}
