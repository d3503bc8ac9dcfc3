// Package access decides who may do what, from the credentials of a request.
//
// HTTP and gRPC have three rights, which are granted separately. Each right has a token of
// its own, and names of client certificates. Beside these, the passwords of the Redis
// protocol are valid too.
//
// A right that nobody was granted is open to everyone, except for changes. Changes are then
// open only on the loopback interface, and only if no credentials are configured at all.
//
// Guesses are bounded: over all clients (guard.go), and, where an answer cannot be late, by
// address (guesses.go). The right password is never slowed down.
package access

import (
	"context"
	"log/slog"
	"time"
)

// Gate admits the requests of ports, and the logins of the Redis protocol. All methods may
// be called by any goroutine.
type Gate struct {
	cfg     Config
	logins  loginGuard
	guesses guesses
}

// Config configures a Gate. All fields must be set.
type Config struct {
	// Rules returns the present rules.
	Rules func() Rules
	// Wrong is called for each wrong password.
	Wrong  func()
	Logger *slog.Logger
}

// New returns a Gate.
func New(c Config) *Gate { return &Gate{cfg: c} }

// Open reports whether a right needs no credentials. local is whether only this machine
// reaches the port. If Open returns true, credentials are ignored: behind a gateway
// Authorization belongs to the gateway's client.
func (g *Gate) Open(port Port, right Right, local bool) bool {
	rules := g.cfg.Rules()
	return rules.open(port, right, local)
}

// Seen reports whether a token or a certificate grants the right to see, beside the
// password.
func (g *Gate) Seen(port Port) bool { return g.cfg.Rules().Grants[port].gives(RightSee) }

// Admit returns the client of a request that needs a right. It returns ErrUnknownClient,
// ErrNoRight, ErrGuesses, or the error of ctx. As for AUTH, an error about credentials is
// late.
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

// AdmitAtOnce is Admit for a client that does not wait, and may take a missing answer for a
// yes. It returns ErrGuesses for an address that has guessed too often, whatever it shows
// but a certificate.
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

// Fail notes a wrong password, and returns how long its answer must wait. If ok is false,
// that is too long, and the client must be disconnected without an answer.
func (g *Gate) Fail(client string, now time.Time) (wait time.Duration, ok bool) {
	g.cfg.Wrong()
	return g.logins.fail(g.cfg.Logger, client, now)
}

// admit is Admit without a wait and without a bound.
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
