package server

import (
	"cmp"
	"time"
)

// Runtime is what can change while a server runs.
type Runtime struct {
	// RequirePass is the password of the default user; empty admits
	// everyone.
	RequirePass string
	// Protected refuses clients from other hosts while there is no password.
	Protected bool
	// MaxClients is how many clients may be connected; 0 is 10 000.
	MaxClients int
	// ClientMemory bounds the bytes of all connections' buffers together: above
	// it those with the most are closed. 0 is no bound.
	ClientMemory int64
	// Timeout closes connections that have been idle for so long; 0 or
	// negative never does.
	Timeout time.Duration
	// SlowlogThreshold is the duration from which on commands enter the slow
	// log; 0 is 10 ms, negative is off.
	SlowlogThreshold time.Duration
	// SlowlogMaxLen is how many entries the slow log keeps; 0 is 128, negative
	// is none.
	SlowlogMaxLen int
}

// withDefaults returns r with zero values replaced.
func (r Runtime) withDefaults() Runtime {
	r.MaxClients = cmp.Or(r.MaxClients, 10_000)
	r.SlowlogThreshold = cmp.Or(r.SlowlogThreshold, 10*time.Millisecond)
	r.SlowlogMaxLen = max(0, cmp.Or(r.SlowlogMaxLen, 128))
	return r
}

// Configure puts r into force. Connections that are authenticated stay so, and
// none is closed for MaxClients. It must not be called twice at the same time.
func (s *Server) Configure(r Runtime) {
	r = r.withDefaults()
	s.runtime.Store(&r)
	s.slow.setMaxLen(r.SlowlogMaxLen)
	s.setMode(modeTimeAll, r.SlowlogThreshold >= 0 && r.SlowlogThreshold < timeAllBelow)
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

// password is that of the default user; empty admits everyone.
func (s *Server) password() string { return s.runtime.Load().RequirePass }
