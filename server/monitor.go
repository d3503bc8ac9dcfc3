package server

import (
	"strconv"
	"sync"
	"time"

	"github.com/headgate-io/headgate/resp"
	"github.com/headgate-io/headgate/server/command"
)

// monitors are the connections that watch every command (MONITOR).
type monitors struct {
	mu  sync.RWMutex
	set map[*conn]struct{} // guarded by mu
}

// startMonitor makes c a watcher.
func (s *Server) startMonitor(c *conn) {
	c.monitoring = true
	s.watchers.mu.Lock()
	defer s.watchers.mu.Unlock()
	if s.watchers.set == nil {
		s.watchers.set = make(map[*conn]struct{})
	}
	s.watchers.set[c] = struct{}{}
	s.setMode(modeMonitors, true)
}

// stopMonitor ends it.
func (s *Server) stopMonitor(c *conn) {
	if !c.monitoring {
		return
	}
	c.monitoring = false
	s.watchers.mu.Lock()
	defer s.watchers.mu.Unlock()
	delete(s.watchers.set, c)
	s.setMode(modeMonitors, len(s.watchers.set) > 0)
}

// feed shows a command of c to the watchers, unless it is for operators.
func (m *monitors) feed(c *conn, cmd *command.Spec, args [][]byte) {
	if cmd.Flags&command.Admin != 0 {
		return
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	if len(m.set) == 0 {
		return
	}
	now := time.Now()
	b := make([]byte, 0, 128)
	b = append(b, '+')
	b = strconv.AppendInt(b, now.Unix(), 10)
	b = append(b, '.')
	micro := strconv.Itoa(now.Nanosecond() / 1000)
	for range 6 - len(micro) {
		b = append(b, '0')
	}
	b = append(b, micro...)
	b = append(b, " ["...)
	b = strconv.AppendUint(b, uint64(c.db), 10)
	b = append(b, ' ')
	b = append(b, c.addr...)
	b = append(b, ']')
	for _, a := range cmd.Public(args) {
		b = append(b, ' ')
		b = appendQuoted(b, a)
	}
	b = append(b, '\r', '\n')
	p := c.srv.memory.payload(len(b))
	for w := range m.set {
		if p == nil {
			w.post(w.killForMemory)
			continue
		}
		w.put(delivery{p, func(out *resp.Writer) {
			if w.mode&modeReplyOff == 0 { // as in Redis
				out.Raw(b)
			}
		}})
	}
	if p != nil {
		p.drop()
	}
}

// appendQuoted quotes as Redis's sdscatrepr does: what redis-cli can read back.
func appendQuoted(b, s []byte) []byte {
	const hex = "0123456789abcdef"
	b = append(b, '"')
	for _, c := range s {
		switch c {
		case '\\', '"':
			b = append(b, '\\', c)
		case '\n':
			b = append(b, '\\', 'n')
		case '\r':
			b = append(b, '\\', 'r')
		case '\t':
			b = append(b, '\\', 't')
		case '\a':
			b = append(b, '\\', 'a')
		case '\b':
			b = append(b, '\\', 'b')
		default:
			if c >= ' ' && c <= '~' {
				b = append(b, c)
			} else {
				b = append(b, '\\', 'x', hex[c>>4], hex[c&15])
			}
		}
	}
	return append(b, '"')
}
