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

// Each caller's changes are limited by a token bucket with this burst and rate per second.
const (
	writeBurst = 100
	writeRate  = 10
	// writesMemory bounds the memory for the callers' buckets, in bytes. A full bucket is
	// dropped to make room.
	writesMemory = 1 << 20
)

// writes limits the changes of each caller. Its buckets are in an engine of its own. So
// each node limits alone, and neither the server's keys nor the cluster's log show the
// buckets.
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

// limited returns a handler that refuses callers who make too many changes, and calls
// handle for the others.
func (w *writes) limited(handle func(*Request) (Answer, error)) func(*Request) (Answer, error) {
	return func(r *Request) (Answer, error) {
		if err := w.take(r); err != nil {
			return Answer{}, err
		}
		return handle(r)
	}
}

// take charges one change to the caller of a request. It returns an error if the caller
// makes too many.
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
