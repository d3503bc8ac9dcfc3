package events

import (
	"encoding/json"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// Type says what an event is about.
type Type string

// The types.
const (
	Denied   Type = "denied"   // a limit or a list has denied calls
	Shadow   Type = "shadow"   // a limit in shadow would have denied calls
	Penalty  Type = "penalty"  // a limit has begun to block a caller
	Policy   Type = "policy"   // a policy, or a record that policies share, has changed
	Override Type = "override" // an override has changed
	Role     Type = "role"     // this node's role has changed
	Leader   Type = "leader"   // another node leads
)

// Event is an event as JSON shows it.
type Event struct {
	// ID is the event's id, which Post sets. A later event has a larger id.
	ID int64 `json:"id"`
	// At is when the event happened, in Unix ms.
	At   int64 `json:"at_ms"`
	Type Type  `json:"type"`
	// Policy, Limit and Key are set for denials and penalties. Policy is the policy's name;
	// it is also set for changes. Limit is the limit's name; "" for a list. Key is the
	// counter's key, up to MaxKey bytes; secrets in it are hashed.
	Policy string `json:"policy,omitempty"`
	Limit  string `json:"limit,omitempty"`
	Key    string `json:"key,omitempty"`
	// Reason is as in RL.CHECK: limit, missing, penalty or deny.
	Reason string `json:"reason,omitempty"`
	// Count is how many calls were denied since the last event of the same limit, key and
	// reason.
	Count uint64 `json:"count,omitempty"`
	// For is how long further calls of the caller are denied, in ms. It lasts until the
	// block ends or, if that is longer, for the limit's own wait.
	For int64 `json:"for_ms,omitempty"`
	// Version, Author, Change and Deleted are set for changes. Change is an override in the
	// form of RL.OVERRIDE LIST, or the name of a record that policies share.
	Version uint64 `json:"version,omitempty"`
	Author  string `json:"author,omitempty"`
	Change  string `json:"change,omitempty"`
	Deleted bool   `json:"deleted,omitempty"`
	// Group is the Raft group of a role or a leader. It is nil if there is only one group.
	Group *int `json:"group,omitempty"`
	// Role is what the node may do now: leading, following, orphaned and so on.
	Role string `json:"role,omitempty"`
	// Leader is the address at which clients reach the leader.
	Leader string `json:"leader,omitempty"`
}

// Bounds of a Log.
const (
	// MaxEvents is how many events are kept. They also take at most MaxBytes of JSON.
	MaxEvents = 8192
	MaxBytes  = 4 << 20
	// PollFor is how long a client counts as a listener after it has asked for events once.
	PollFor = time.Minute
)

// Log keeps the newest events. Make one with New.
type Log struct {
	// listening reports whether anybody listens. If it is false, a denial reads nothing
	// else of the log.
	listening atomic.Bool
	unread    atomic.Uint64

	// mu guards the fields below.
	mu          sync.Mutex
	ring        [MaxEvents]Line // an event's index is its id modulo MaxEvents
	first, next int64           // ids of the oldest event, and of the event to come
	bytes       int
	wake        chan struct{} // closed when the next event arrives
	awaited     bool          // Read has returned wake to a reader
	streams     int
	polled      time.Time
	born        int64
}

// Line is an event's id, and the event as JSON without a line end.
type Line struct {
	ID   int64
	Type Type
	JSON []byte
}

// New returns a log. Its ids are larger than those of an earlier log of this node, unless
// the earlier log had more than a million events per second.
func New() *Log {
	born := time.Now().UnixMicro()
	return &Log{first: born, next: born, born: born, wake: make(chan struct{})}
}

// Listening reports whether anybody listens.
func (l *Log) Listening() bool { return l.listening.Load() }

// Listen notes that somebody listens, until the caller calls stop. stop must be called
// once.
func (l *Log) Listen() (stop func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.streams++
	l.listening.Store(true)
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.streams--
	}
}

// Poll notes that a client has asked for events. The client counts as a listener for
// PollFor.
func (l *Log) Poll() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.polled = time.Now()
	l.listening.Store(true)
}

// Settle updates whether anybody still listens, and reports it.
func (l *Log) Settle() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	on := l.streams > 0 || time.Since(l.polled) < PollFor
	l.listening.Store(on)
	return on
}

// Post adds an event and sets its id.
func (l *Log) Post(e Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e.ID = l.next
	text := e.appendJSON(make([]byte, 0, eventRoom))
	for l.next-l.first == MaxEvents || l.bytes+len(text) > MaxBytes && l.first < l.next {
		old := &l.ring[l.first%MaxEvents]
		l.bytes -= len(old.JSON)
		*old = Line{}
		l.first++
	}
	l.ring[l.next%MaxEvents] = Line{l.next, e.Type, text}
	l.bytes += len(text)
	l.next++
	if l.awaited {
		close(l.wake)
		l.wake, l.awaited = make(chan struct{}), false
	}
}

// eventRoom is the approximate size of an event as JSON, in bytes.
const eventRoom = 192

// appendJSON appends an event in the form of json.Marshal, at a fraction of its cost. This
// matters when hundreds of thousands of overrides change.
func (e *Event) appendJSON(b []byte) []byte {
	number := func(name string, n uint64) {
		if n != 0 {
			b = strconv.AppendUint(append(append(append(b, ',', '"'), name...), '"', ':'), n, 10)
		}
	}
	text := func(name, s string) {
		if s != "" {
			b = appendText(append(append(append(b, ',', '"'), name...), '"', ':'), s)
		}
	}
	b = strconv.AppendInt(append(b, `{"id":`...), e.ID, 10)
	b = strconv.AppendInt(append(b, `,"at_ms":`...), e.At, 10)
	b = appendText(append(b, `,"type":`...), string(e.Type))
	text("policy", e.Policy)
	text("limit", e.Limit)
	text("key", e.Key)
	text("reason", e.Reason)
	number("count", e.Count)
	number("for_ms", uint64(e.For)) // never below 0
	number("version", e.Version)
	text("author", e.Author)
	text("change", e.Change)
	if e.Deleted {
		b = append(b, `,"deleted":true`...)
	}
	if e.Group != nil {
		b = strconv.AppendInt(append(b, `,"group":`...), int64(*e.Group), 10)
	}
	text("role", e.Role)
	text("leader", e.Leader)
	return append(b, '}')
}

// appendText appends a text as a JSON string.
func appendText(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			quoted, err := json.Marshal(s)
			if err != nil {
				panic(err) // strings always marshal
			}
			return append(b, quoted...)
		}
	}
	return append(append(append(b, '"'), s...), '"')
}

// Newest returns the id of the count-th newest event. If count is 0, it returns the id of
// the event to come.
func (l *Log) Newest(count int) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return max(l.first, l.next-int64(count))
}

// Read appends to dst the events from the id from on. It appends at most count events and
// at most bytes of JSON, but at least one event if there is any. next is the id to continue
// with. lost is how many events since from are no longer kept; events before the node's
// start do not count. If Read has appended all events, changed is a channel that is
// closed when the next event arrives.
func (l *Log) Read(dst []Line, from int64, count, bytes int) (lines []Line, next, lost int64, changed <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	next = min(from, l.next)
	if next < l.first {
		lost = l.first - max(next, l.born)
		l.unread.Add(uint64(lost))
		next = l.first
	}
	size := 0
	for ; next < l.next && len(dst) < count; next++ {
		line := l.ring[next%MaxEvents]
		if size += len(line.JSON); size > bytes && len(dst) > 0 {
			break
		}
		dst = append(dst, line)
	}
	l.awaited = true
	return dst, next, lost, l.wake
}

// Posted returns how many events have been posted.
func (l *Log) Posted() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return uint64(l.next - l.born)
}

// Unread returns how many events readers have lost because they were no longer kept.
func (l *Log) Unread() uint64 { return l.unread.Load() }
