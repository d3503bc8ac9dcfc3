package pubsub

import (
	"sync"
	"sync/atomic"

	"github.com/headgate-io/headgate/resp"
)

// Conn is a connection, as this package uses it.
type Conn interface {
	// Put puts a message into the connection's inbox. If the message is lost, it closes the
	// connection. Any goroutine may call it.
	Put(m Message)
	// CatchUpWhole writes the messages that arrived before a subscription ended, so that
	// they precede the confirmation of the end.
	CatchUpWhole()
	// Changed updates the parts of the connection that depend on the Subscriber's state.
	Changed()
}

// Subscriber holds what a connection has subscribed to. Only the connection's thread may
// call its methods, except Shown. Call Init before the others.
type Subscriber struct {
	hub  *Hub
	conn Conn

	subs       *subscriptions // nil without subscriptions
	monitoring bool
	caching    bool     // CLIENT CACHING applies to the next command
	read       []string // keys that a job reads; they are invalidated after the job's reply
	readOwn    bool     // the connection itself tracks the keys of read

	shown atomic.Pointer[Shown] // nil if nothing is shown
}

// Shown is the part of a subscriber's state that others read, for example CLIENT LIST.
type Shown struct {
	Subscriptions [Kinds]int
	Monitoring    bool
	tracking      tracking
}

// nothing is the Shown of most connections, which subscribe to nothing.
var nothing Shown

// Init makes s the subscriber of a connection.
func (s *Subscriber) Init(hub *Hub, conn Conn) { s.hub, s.conn = hub, conn }

// Shown returns the state that others may read. Any goroutine may call it.
func (s *Subscriber) Shown() *Shown {
	if shown := s.shown.Load(); shown != nil {
		return shown
	}
	return &nothing
}

// show replaces the state that others read by a changed copy.
func (s *Subscriber) show(change func(*Shown)) {
	shown := *s.Shown()
	change(&shown)
	s.shown.Store(&shown)
}

// Subscribed reports whether the connection has any subscriptions.
func (s *Shown) Subscribed() bool { return s.Subscriptions != [Kinds]int{} }

// Tracking reports whether CLIENT TRACKING is on.
func (s *Shown) Tracking() bool { return s.tracking.on }

// Redirected returns the id of the client that gets the invalidations: 0 for this client
// itself, -1 if there is no tracking.
func (s *Shown) Redirected() int64 {
	if !s.tracking.on {
		return -1
	}
	return s.tracking.redirect
}

// Listens reports whether the connection may be silent for long, because it waits for
// messages.
func (s *Subscriber) Listens() bool { return s.subs != nil || s.monitoring }

// Subscribed reports whether the connection has any subscriptions.
func (s *Subscriber) Subscribed() bool { return s.subs != nil }

// Size returns the approximate memory of the subscriptions, in bytes.
func (s *Subscriber) Size() int {
	if s.subs == nil {
		return 0
	}
	return s.subs.size
}

// End ends all subscriptions, MONITOR and CLIENT TRACKING.
func (s *Subscriber) End() {
	if s.subs != nil {
		for k := range Kinds {
			for name := range s.subs.names[k] {
				s.hub.remove(k, name, s)
			}
		}
		s.subscribed()
	}
	s.stopMonitor()
	s.setTracking(tracking{})
}

// subscribed updates what depends on the number of subscriptions.
func (s *Subscriber) subscribed() {
	counts := s.subs.counts()
	if counts == ([Kinds]int{}) {
		s.subs = nil
	}
	s.show(func(shown *Shown) { shown.Subscriptions = counts })
	s.conn.Changed()
}

// push sends a message of about size bytes to this connection alone. The connection's
// thread calls write, which writes the message. Any goroutine may call push.
func (s *Subscriber) push(size int, write func(w *resp.Writer)) {
	p := newPayload(s.hub.account, size)
	if p == nil {
		s.conn.Put(Message{})
		return
	}
	s.conn.Put(Message{shared: p, head: write})
	p.drop()
}

// group is a set of subscribers.
type group struct {
	some func(bool) // called with whether the group has any subscribers
	any  atomic.Bool
	mu   sync.RWMutex
	set  map[*Subscriber]struct{} // guarded by mu
}

// put adds a subscriber if in is true, and removes it otherwise.
func (g *group) put(s *Subscriber, in bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.set == nil {
		g.set = make(map[*Subscriber]struct{})
	}
	if in {
		g.set[s] = struct{}{}
	} else {
		delete(g.set, s)
	}
	g.any.Store(len(g.set) > 0)
	g.some(len(g.set) > 0)
}

// each calls fn with all subscribers. The group does not change meanwhile.
func (g *group) each(fn func(*Subscriber)) {
	if !g.any.Load() {
		return
	}
	g.mu.RLock()
	defer g.mu.RUnlock()
	for s := range g.set {
		fn(s)
	}
}
