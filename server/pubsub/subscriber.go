package pubsub

import (
	"sync"
	"sync/atomic"

	"github.com/headgate-io/headgate/resp"
)

// Conn is a connection as this room sees it.
type Conn interface {
	// Put puts a message into the connection's inbox, or closes the connection if the
	// message is lost. Any goroutine may call it.
	Put(m Message)
	// CatchUpWhole writes the messages from before a subscription ended, so that they
	// precede the confirmation.
	CatchUpWhole()
	// Changed updates what depends on the Subscriber.
	Changed()
}

// Subscriber is what a connection has subscribed to. It belongs to the connection's thread,
// except for Shown. Init makes it usable.
type Subscriber struct {
	hub  *Hub
	conn Conn

	subs       *subscriptions // nil without any
	monitoring bool
	caching    bool     // CLIENT CACHING applies to the next command
	read       []string // keys that a job reads, to be invalidated after its reply
	readOwn    bool     // they are tracked for the connection itself

	shown atomic.Pointer[Shown] // nil if nothing is shown
}

// Shown is what others see of a subscriber, such as CLIENT LIST.
type Shown struct {
	Subscriptions [Kinds]int
	Monitoring    bool
	tracking      tracking
}

// nothing is what most connections show.
var nothing Shown

// Init makes s the subscriber of a connection.
func (s *Subscriber) Init(hub *Hub, conn Conn) { s.hub, s.conn = hub, conn }

// Shown returns what others see. Any goroutine may call it.
func (s *Subscriber) Shown() *Shown {
	if shown := s.shown.Load(); shown != nil {
		return shown
	}
	return &nothing
}

// show replaces what others see with a changed copy.
func (s *Subscriber) show(change func(*Shown)) {
	shown := *s.Shown()
	change(&shown)
	s.shown.Store(&shown)
}

// Subscribed reports whether there are subscriptions.
func (s *Shown) Subscribed() bool { return s.Subscriptions != [Kinds]int{} }

// Tracking reports whether CLIENT TRACKING is on.
func (s *Shown) Tracking() bool { return s.tracking.on }

// Redirected returns the id of the client that gets the invalidations, 0 for the client
// itself, or -1 for none.
func (s *Shown) Redirected() int64 {
	if !s.tracking.on {
		return -1
	}
	return s.tracking.redirect
}

// Listens reports whether the connection may be silent for long, because it waits for
// messages.
func (s *Subscriber) Listens() bool { return s.subs != nil || s.monitoring }

// Subscribed reports whether there are subscriptions.
func (s *Subscriber) Subscribed() bool { return s.subs != nil }

// Size returns about the memory of the subscriptions, in bytes.
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

// push sends a message of about size bytes to the connection alone. write writes it. Any
// goroutine may call it.
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
	some func(bool) // is called with whether there are any
	any  atomic.Bool
	mu   sync.RWMutex
	set  map[*Subscriber]struct{} // guarded by mu
}

// put adds a subscriber, or removes it.
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
