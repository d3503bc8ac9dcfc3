package access

import (
	"log/slog"
	"sync"
	"time"
)

const (
	// LoginDelay is the shortest delay of the answer to a wrong password.
	LoginDelay = 100 * time.Millisecond
	// loginPace is the time between two answers to wrong passwords. So all clients together
	// have 50 guesses per second.
	loginPace = 20 * time.Millisecond
	// loginPatience is the longest delay. A client that would wait longer is
	// disconnected.
	loginPatience = 5 * time.Second
	// loginLogInterval is the least time between two log lines about wrong passwords.
	loginLogInterval = 10 * time.Second
)

// loginGuard slows down clients that guess passwords. It never delays a correct password,
// so guessing locks nobody out.
type loginGuard struct {
	// mu guards the fields below.
	mu     sync.Mutex
	next   time.Time // when the next wrong password may be answered
	logged time.Time
	failed int // wrong passwords since the last log line
}

// fail notes a wrong password and returns how long its answer must wait. ok is false if
// that is longer than loginPatience.
func (g *loginGuard) fail(log *slog.Logger, client string, now time.Time) (wait time.Duration, ok bool) {
	g.note(log, client, now)
	g.mu.Lock()
	defer g.mu.Unlock()
	at := now.Add(LoginDelay)
	if g.next.After(at) {
		at = g.next
	}
	if wait = at.Sub(now); wait > loginPatience {
		return 0, false
	}
	g.next = at.Add(loginPace)
	return wait, true
}

// note counts a wrong password for the log.
func (g *loginGuard) note(log *slog.Logger, client string, now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.failed++
	if now.Sub(g.logged) >= loginLogInterval {
		log.Warn("wrong password", "client", client, "failures", g.failed)
		g.logged, g.failed = now, 0
	}
}
