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

// The changes of one caller are limited by a token bucket: burst, and rate per second.
const (
	writeBurst = 100
	writeRate  = 10
	// writesMemory bounds the memory for callers, in bytes. Callers whose bucket is full
	// make room.
	writesMemory = 1 << 20
)

// writes limits the changes of each caller. It has an engine of its own, so that neither
// keys nor the cluster's log show anything of it. So each node limits alone.
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

// limited wraps handle, which callers with too many changes do not reach.
func (w *writes) limited(handle func(*Request) (Answer, error)) func(*Request) (Answer, error) {
	return func(r *Request) (Answer, error) {
		if err := w.take(r); err != nil {
			return Answer{}, err
		}
		return handle(r)
	}
}

// take counts a change of a request's caller.
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
