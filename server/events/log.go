package events

import (
	"encoding/json"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// Type is what an event is about.
type Type string

// The types.
const (
	Denied   Type = "denied"   // a limit or a list has denied calls
	Shadow   Type = "shadow"   // a limit in shadow would have
	Penalty  Type = "penalty"  // a limit blocks a caller from now on
	Policy   Type = "policy"   // a policy, or what policies share, has changed
	Override Type = "override" // so has an override
	Role     Type = "role"     // what this node may do
	Leader   Type = "leader"   // another node leads
)

// Event is one of them, as JSON shows it.
type Event struct {
	// ID grows from event to event; Post gives it.
	ID int64 `json:"id"`
	// At is when it happened, Unix ms.
	At   int64 `json:"at_ms"`
	Type Type  `json:"type"`
	// Policy, Limit and Key are of denials and penalties: the name of the policy, that
	// of the limit, "" for a list, and the key of the counter, in which secrets are
	// hashed, up to MaxKey bytes. Policy is of changes too.
	Policy string `json:"policy,omitempty"`
	Limit  string `json:"limit,omitempty"`
	Key    string `json:"key,omitempty"`
	// Reason is that of RL.CHECK: limit, missing, penalty or deny.
	Reason string `json:"reason,omitempty"`
	// Count is how many calls were denied since the last event of the same limit,
	// key and reason.
	Count uint64 `json:"count,omitempty"`
	// For is how long calls of the caller are denied now, in ms: until the block ends,
	// or the limit's own wait if that is longer.
	For int64 `json:"for_ms,omitempty"`
	// Version, Author, Change and Deleted are of changes: Change is an override as
	// RL.OVERRIDE lists it, or the name of what policies share.
	Version uint64 `json:"version,omitempty"`
	Author  string `json:"author,omitempty"`
	Change  string `json:"change,omitempty"`
	Deleted bool   `json:"deleted,omitempty"`
	// Role is what the node may do now: leading, following, orphaned and so on.
	Role string `json:"role,omitempty"`
	// Leader is where clients reach the node that leads.
	Leader string `json:"leader,omitempty"`
}

// Bounds of a Log.
const (
	// MaxEvents are kept, in up to MaxBytes of JSON.
	MaxEvents = 8192
	MaxBytes  = 4 << 20
	// PollFor is how long who has asked once counts as listening.
	PollFor = time.Minute
)

// Log keeps the newest events. Make one with New.
type Log struct {
	// listening is all that a denial looks at while nobody does.
	listening atomic.Bool
	unread    atomic.Uint64

	// mu guards what follows.
	mu          sync.Mutex
	ring        [MaxEvents]Line // an event of an id is at id modulo MaxEvents
	first, next int64           // ids of the oldest event, and of the next one
	bytes       int
	wake        chan struct{} // closed with the next event
	awaited     bool          // Read has given wake away
	streams     int
	polled      time.Time
	born        int64
}

// Line is an event with its id, as JSON without an end of line.
type Line struct {
	ID   int64
	Type Type
	JSON []byte
}

// New returns a log whose ids are above those of one that was made before, unless
// there were more than a million events a second.
func New() *Log {
	born := time.Now().UnixMicro()
	return &Log{first: born, next: born, born: born, wake: make(chan struct{})}
}

// Listening reports whether somebody would read events.
func (l *Log) Listening() bool { return l.listening.Load() }

// Listen notes that somebody reads until stop is called, once.
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

// Poll notes that somebody has asked for events.
func (l *Log) Poll() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.polled = time.Now()
	l.listening.Store(true)
}

// Settle finds out whether anybody still listens, and reports it.
func (l *Log) Settle() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	on := l.streams > 0 || time.Since(l.polled) < PollFor
	l.listening.Store(on)
	return on
}

// Post adds an event, and gives it its id.
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

// eventRoom is about how many bytes an event has as JSON.
const eventRoom = 192

// appendJSON appends what json.Marshal makes of an event, at a fraction of the cost:
// overrides may come by the hundred thousand.
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
	text("role", e.Role)
	text("leader", e.Leader)
	return append(b, '}')
}

// appendText appends a text as JSON has it.
func appendText(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			quoted, err := json.Marshal(s)
			if err != nil {
				panic(err) // of a text
			}
			return append(b, quoted...)
		}
	}
	return append(append(append(b, '"'), s...), '"')
}

// Newest is the id from which on there are up to so many events. With 0 it is that of
// the next one.
func (l *Log) Newest(count int) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return max(l.first, l.next-int64(count))
}

// Read appends the events from an id on, up to count and to bytes of JSON, but at
// least one if there is any. next is the id to go on with, lost how many there have
// been since that are not kept any more; those before the node started are not
// counted. more is closed when there are further ones, once all are read.
func (l *Log) Read(dst []Line, from int64, count, bytes int) (lines []Line, next, lost int64, more <-chan struct{}) {
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

// Posted is how many events there have been.
func (l *Log) Posted() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return uint64(l.next - l.born)
}

// Unread is how many events readers were too late for.
func (l *Log) Unread() uint64 { return l.unread.Load() }
