package server

import (
	"time"

	"github.com/headgate-io/headgate/server/access"
)

// Runtime is the configuration that can change while a server runs.
type Runtime struct {
	// RequirePass is the password of the default user. If it is empty, everyone is
	// admitted.
	RequirePass string
	// AdminPass is the password of the user admin, the only user who may run guarded
	// commands. If it is empty, that user does not exist, and everyone may run them.
	AdminPass string
	// Access has the rules of the other fronts, by access.Port: they say who may do what.
	Access [access.PortCount]access.Grants
	// Protected refuses clients from other hosts while no password is set.
	Protected bool
	// MaxClients bounds the connected clients; 0 means no bound.
	MaxClients int
	// ClientMemory bounds the memory of all clients together, in bytes. Above it, the
	// server closes the clients that use the most. 0 means no bound.
	ClientMemory int64
	// Timeout is how long a connection may be idle before it is closed; 0 means forever.
	Timeout time.Duration
	// Commands that take at least SlowlogThreshold enter the slow log. A negative value
	// turns the slow log off.
	SlowlogThreshold time.Duration
	// SlowlogMaxLen is how many entries the slow log keeps; 0 turns it off.
	SlowlogMaxLen int
	// DecisionsDenied is how many lines per second Config.Decisions writes for denied
	// calls. Of the calls that pass, one in DecisionsOneIn gets a line. 0 means no lines.
	DecisionsDenied, DecisionsOneIn int64
	// ScriptTime is how long a script may compute; 0 means 5 s.
	ScriptTime time.Duration
}

// Configure puts r into force. Clients that have authenticated stay authenticated, and no
// connection is closed because of MaxClients. Configure must not be called twice at the
// same time.
func (s *Server) Configure(r Runtime) {
	s.runtime.Store(&r)
	s.slow.setMaxLen(r.SlowlogMaxLen)
	if log := s.cfg.Decisions; log != nil {
		log.SetRates(r.DecisionsDenied, r.DecisionsOneIn)
		s.setMode(modeDecisions, r.DecisionsDenied > 0 || r.DecisionsOneIn > 0)
	}
	s.setMode(modeTimeAll, r.SlowlogMaxLen > 0 && r.SlowlogThreshold >= 0 && r.SlowlogThreshold < timeAllBelow)
}

// setMode sets or clears a bit for all connections. A lane uses it from its next batch on.
func (s *Server) setMode(m mode, on bool) {
	if on {
		s.mode.Or(uint32(m))
	} else {
		s.mode.And(^uint32(m))
	}
}
