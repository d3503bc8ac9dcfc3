package admin

import (
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/engine/algo"
)

// Changes of one caller are a token bucket: so many at once, and so many a second.
const (
	writeBurst = 100
	writeRate  = 10
	// writesMemory bounds what is known of callers; those whose bucket is full make
	// room.
	writesMemory = 1 << 20
)

// writes limits changes by who sends them: by an engine of its own, so that neither
// keys nor the log of the cluster have anything of it, and so on each node by itself.
type writes struct {
	// mu guards the session.
	mu      sync.Mutex
	engine  *engine.Engine
	session *engine.Session
}

func newWrites() *writes {
	e := engine.New(engine.Config{Shards: 1, MaxBytes: writesMemory, Evict: true})
	return &writes{engine: e, session: e.NewSession()}
}

// limited returns handle for callers that have not changed too much.
func (w *writes) limited(handle func(*Request) (Answer, error)) func(*Request) (Answer, error) {
	return func(r *Request) (Answer, error) {
		if err := w.take(r); err != nil {
			return Answer{}, err
		}
		return handle(r)
	}
}

// take takes a change of a request's caller.
func (w *writes) take(r *Request) error {
	host, _, err := net.SplitHostPort(r.Who.Addr)
	if err != nil {
		host = r.Who.Addr
	}
	key := []byte(r.Who.User + "\x00" + r.Who.Name + "\x00" + host)
	w.mu.Lock()
	defer w.mu.Unlock()
	d, err := w.session.Decide(w.engine.Now(), key, algo.Limit{Limit: writeRate, Period: int64(time.Second), Burst: writeBurst}, 1, &algo.Options{})
	if err == nil && !d.OK {
		err = &Error{Status: http.StatusTooManyRequests, Code: "BUSY", Detail: fmt.Sprintf("too many changes: %d at once and %d a second from one caller", writeBurst, writeRate), RetryAfter: time.Duration(d.RetryAfter)}
	}
	return err
}
