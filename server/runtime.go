package server

import (
	"time"

	"github.com/headgate-io/headgate/server/access"
)

// Runtime is what can change while a server runs.
type Runtime struct {
	// RequirePass is the password of the default user; empty admits
	// everyone.
	RequirePass string
	// AdminPass is the password of the user admin, without whom nobody runs
	// what is guarded; empty has no such user, and lets everyone.
	AdminPass string
	// Access says who may what over other fronts, by Port.
	Access [access.PortCount]access.Grants
	// Protected refuses clients from other hosts while there is no password.
	Protected bool
	// MaxClients is how many clients may be connected; 0 is no bound.
	MaxClients int
	// ClientMemory bounds the bytes of all connections' buffers together: above
	// it those with the most are closed. 0 is no bound.
	ClientMemory int64
	// Timeout closes connections that have been idle for so long; 0 never
	// does.
	Timeout time.Duration
	// SlowlogThreshold is the duration from which on commands enter the slow
	// log; negative is off.
	SlowlogThreshold time.Duration
	// SlowlogMaxLen is how many entries the slow log keeps; with 0 it is off.
	SlowlogMaxLen int
	// DecisionsDenied is how many lines a second Config.Decisions has of calls that are
	// denied, and DecisionsOneIn that one in so many calls that pass has one. 0 is none.
	DecisionsDenied, DecisionsOneIn int64
	// ScriptTime is how long a script may compute; 0 is 5 s.
	ScriptTime time.Duration
}

// Configure puts r into force. Connections that are authenticated stay so, and
// none is closed for MaxClients. It must not be called twice at the same time.
func (s *Server) Configure(r Runtime) {
	s.runtime.Store(&r)
	s.slow.setMaxLen(r.SlowlogMaxLen)
	if log := s.cfg.Decisions; log != nil {
		log.SetRates(r.DecisionsDenied, r.DecisionsOneIn)
		s.setMode(modeDecisions, r.DecisionsDenied > 0 || r.DecisionsOneIn > 0)
	}
	s.setMode(modeTimeAll, r.SlowlogMaxLen > 0 && r.SlowlogThreshold >= 0 && r.SlowlogThreshold < timeAllBelow)
}

// setMode turns a bit that applies to every connection on or off; it takes
// effect with each lane's next batch.
func (s *Server) setMode(m mode, on bool) {
	if on {
		s.mode.Or(uint32(m))
	} else {
		s.mode.And(^uint32(m))
	}
}
