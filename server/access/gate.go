// Package access decides who may do what, by what a request shows.
//
// Over HTTP and gRPC there are three rights, which are opened separately. Each has a
// token of its own, and names of client certificates. Beside these, the passwords of
// the Redis protocol give what they give there.
//
// A right for which nobody has been given anything is open to everyone, except for
// changes: those are open on the loopback interface alone, and only where nothing at
// all is asked for.
//
// Guesses are bounded: over all clients (guard.go), and, where an answer cannot be
// late, by address (guesses.go). The right password is never slowed down.
package access

import (
	"context"
	"log/slog"
	"time"
)

// Gate admits the requests of ports, and the logins of the Redis protocol. All methods
// may be called by any goroutine.
type Gate struct {
	cfg     Config
	logins  loginGuard
	guesses guesses
}

// Config is what a Gate goes by. All fields must be set.
type Config struct {
	// Rules returns what is asked for now.
	Rules func() Rules
	// Wrong is called for each wrong password.
	Wrong  func()
	Logger *slog.Logger
}

// New returns a Gate.
func New(c Config) *Gate { return &Gate{cfg: c} }

// Open reports whether a right needs nothing to be shown; local is that only this
// machine reaches the port. Then nothing is looked at: behind a gateway Authorization
// is that of the gateway's own client.
func (g *Gate) Open(port Port, right Right, local bool) bool {
	rules := g.cfg.Rules()
	return rules.open(port, right, local)
}

// Seen reports whether something is asked for the right to see beside a password.
func (g *Gate) Seen(port Port) bool { return g.cfg.Rules().Grants[port].gives(RightSee) }

// Admit returns who sends a request that needs a right. Its error is ErrUnknownClient,
// ErrNoRight, ErrGuesses, or that of ctx. What is wrong is answered late, as by AUTH.
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

// AdmitAtOnce is Admit for who does not wait long, and may take no answer for a yes. An
// address that has guessed too often is answered ErrGuesses, whatever it shows but a
// certificate.
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

// Fail notes a wrong password, and returns how long its answer has to wait. ok is false
// if that is too long: then the client is to be disconnected without an answer.
func (g *Gate) Fail(client string, now time.Time) (wait time.Duration, ok bool) {
	g.cfg.Wrong()
	return g.logins.fail(g.cfg.Logger, client, now)
}

// admit is Admit without a wait, and without a bound.
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
