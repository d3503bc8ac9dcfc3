package server

import (
	"sync"
	"time"

	"github.com/headgate-io/headgate/server/command"
)

// pauses is the state of CLIENT PAUSE. Clients' commands wait until the pause ends.
type pauses struct {
	mu        sync.Mutex
	timer     *time.Timer // guarded by mu
	until     time.Time   // guarded by mu
	writeOnly bool        // guarded by mu
	// waiting holds the connections whose commands wait; guarded by mu.
	waiting map[*conn]struct{}
}

// pause stops commands for d: all commands, or only those that write. It never shortens a
// pause that has begun.
func (s *Server) pause(d time.Duration, writeOnly bool) {
	p := &s.pauses
	p.mu.Lock()
	defer p.mu.Unlock()
	until := time.Now().Add(d)
	if p.timer != nil {
		p.timer.Stop()
		if p.until.After(until) {
			until = p.until
		}
	}
	p.until = until
	p.writeOnly = writeOnly
	p.timer = time.AfterFunc(time.Until(until), func() { s.endPause(until) })
	s.setMode(modePaused, true)
}

// endPause ends the pause whose end is until. It does nothing if the pause was extended
// meanwhile.
func (s *Server) endPause(until time.Time) {
	s.endPauseIf(func(p *pauses) bool { return p.until.Equal(until) })
}

// unpause ends a pause early.
func (s *Server) unpause() {
	s.endPauseIf(func(*pauses) bool { return true })
}

// endPauseIf ends the present pause if ends returns true, and lets the waiting connections
// run. It calls ends while it holds mu.
func (s *Server) endPauseIf(ends func(*pauses) bool) {
	p := &s.pauses
	p.mu.Lock()
	if p.timer == nil || !ends(p) {
		p.mu.Unlock()
		return
	}
	p.timer.Stop()
	p.timer = nil
	waiting := p.waiting
	p.waiting = nil
	s.setMode(modePaused, false)
	p.mu.Unlock()
	for c := range waiting {
		c.post(func() { c.stall &^= stallPause })
	}
}

// leave removes c, which has been closed.
func (p *pauses) leave(c *conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.waiting, c)
}

// count returns how many connections wait for the end of the pause.
func (p *pauses) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.waiting)
}

// mustPause reports whether cmd must wait now, and notes that c waits. CLIENT and HELP
// never wait, so that CLIENT UNPAUSE works.
func (c *conn) mustPause(cmd *command.Spec) bool {
	if cmd.Flags&command.Unpaused != 0 {
		return false
	}
	p := &c.srv.pauses
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.timer == nil {
		return false
	}
	must := !p.writeOnly || cmd.Flags&command.Write != 0 || c.tx != nil && c.tx.writes && cmd.Flags&command.Exec != 0
	if must {
		if p.waiting == nil {
			p.waiting = make(map[*conn]struct{})
		}
		p.waiting[c] = struct{}{}
	}
	return must
}
