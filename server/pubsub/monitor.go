package pubsub

import (
	"strconv"
	"time"

	"github.com/headgate-io/headgate/resp"
	"github.com/headgate-io/headgate/server/command"
)

// Monitor makes the connection watch every command.
func (s *Subscriber) Monitor(call *command.Call) {
	if !s.monitoring {
		s.monitoring = true
		s.hub.monitors.put(s, true)
		s.show(func(shown *Shown) { shown.Monitoring = true })
	}
	call.W.OK()
}

// stopMonitor ends MONITOR of the connection.
func (s *Subscriber) stopMonitor() {
	if s.monitoring {
		s.monitoring = false
		s.hub.monitors.put(s, false)
		s.show(func(shown *Shown) { shown.Monitoring = false })
	}
}

// Watched reports whether somebody watches with MONITOR.
func (h *Hub) Watched() bool { return h.monitors.any.Load() }

// Feed shows a command to the clients that watch with MONITOR, unless the command is for
// operators. addr and db are the client's address and database.
func (h *Hub) Feed(addr string, db uint8, cmd *command.Spec, args [][]byte) {
	if cmd.Flags&command.Admin != 0 || !h.Watched() {
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
	b = strconv.AppendUint(b, uint64(db), 10)
	b = append(b, ' ')
	b = append(b, addr...)
	b = append(b, ']')
	for _, a := range cmd.Public(args) {
		b = append(b, ' ')
		b = appendQuoted(b, a)
	}
	b = append(b, '\r', '\n')
	m := Message{Reply: true}
	if p := newPayload(h.account, len(b)); p != nil {
		m.shared, m.head = p, func(w *resp.Writer) { w.Raw(b) }
		defer p.drop()
	}
	h.monitors.each(func(s *Subscriber) { s.conn.Put(m) })
}

// appendQuoted quotes as Redis's sdscatrepr does, so that redis-cli can read it.
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
