package web

import (
	"net/http"
	"time"
)

const (
	// writePiece is how much of an answer has writePatience to leave: who reads more
	// slowly than that is cut off.
	writePiece    = 64 << 10
	writePatience = 5 * time.Second
	// stuckAfter is how long a piece may take before its connection makes room for
	// others.
	stuckAfter = time.Second
)

// writer writes an answer in pieces that each have their time. What is left in
// buffers when the handler ends has it too.
type writer struct {
	http.ResponseWriter
	control *http.ResponseController
	conns   *connections
	conn    *connection // nil for none
}

// patient returns a handler whose answers have their time piece by piece, rather than
// as a whole.
func (cs *connections) patient(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		pw := &writer{w, http.NewResponseController(w), cs, connectionOf(r)}
		h.ServeHTTP(pw, r)
		pw.extend(time.Now())
	})
}

// Write implements http.ResponseWriter.
func (w *writer) Write(b []byte) (n int, err error) {
	defer w.began(time.Time{})
	for {
		now := time.Now()
		w.began(now)
		w.extend(now)
		piece := b[n:min(n+writePiece, len(b))]
		m, err := w.ResponseWriter.Write(piece)
		n += m
		if err != nil || n == len(b) {
			return n, err
		}
	}
}

// began notes when a piece began, or, with zero, that none is being written.
func (w *writer) began(at time.Time) {
	if w.conn == nil {
		return
	}
	w.conns.mu.Lock()
	defer w.conns.mu.Unlock()
	w.conn.writing = at
}

// extend gives what is written next its time.
func (w *writer) extend(now time.Time) {
	// There is no deadline where there is no connection, in tests of handlers.
	_ = w.control.SetWriteDeadline(now.Add(writePatience))
}

// Unwrap is for http.ResponseController.
func (w *writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }
