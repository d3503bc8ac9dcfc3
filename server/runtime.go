package server

import (
	"time"

	"github.com/headgate-io/headgate/server/access"
)

// Runtime is the configuration that can change while a server runs.
type Runtime struct {
	// RequirePass is the password of the default user; empty admits everyone.
	RequirePass string
	// AdminPass is the password of the user admin, who alone may run guarded commands. If
	// it is empty, that user does not exist, and everyone may run them.
	AdminPass string
	// Access says, by Port, who may do what over other fronts.
	Access [access.PortCount]access.Grants
	// Protected refuses clients from other hosts while there is no password.
	Protected bool
	// MaxClients bounds the connected clients; 0 means no bound.
	MaxClients int
	// ClientMemory bounds the memory of all clients together, in bytes. Above it those with
	// the most are closed. 0 means no bound.
	ClientMemory int64
	// Timeout is how long a connection may be idle before it is closed; 0 means for ever.
	Timeout time.Duration
	// SlowlogThreshold is the duration from which on commands enter the slow log; negative
	// turns it off.
	SlowlogThreshold time.Duration
	// SlowlogMaxLen is how many entries the slow log keeps; 0 turns it off.
	SlowlogMaxLen int
	// DecisionsDenied is how many lines per second denied calls get in Config.Decisions.
	// DecisionsOneIn: one in so many calls that pass gets a line. 0 means none.
	DecisionsDenied, DecisionsOneIn int64
	// ScriptTime is how long a script may compute; 0 is 5 s.
	ScriptTime time.Duration
}

// Configure puts r into force. Authenticated connections stay so, and none is closed for
// MaxClients. It must not be called twice at the same time.
func (s *Server) Configure(r Runtime) {
	s.runtime.Store(&r)
	s.slow.setMaxLen(r.SlowlogMaxLen)
	if log := s.cfg.Decisions; log != nil {
		log.SetRates(r.DecisionsDenied, r.DecisionsOneIn)
		s.setMode(modeDecisions, r.DecisionsDenied > 0 || r.DecisionsOneIn > 0)
	}
	s.setMode(modeTimeAll, r.SlowlogMaxLen > 0 && r.SlowlogThreshold >= 0 && r.SlowlogThreshold < timeAllBelow)
}

// setMode sets or clears a bit that applies to every connection. It takes effect with each
// lane's next batch.
func (s *Server) setMode(m mode, on bool) {
	if on {
		s.mode.Or(uint32(m))
	} else {
		s.mode.And(^uint32(m))
	}
}
