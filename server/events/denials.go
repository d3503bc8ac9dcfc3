package events

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"
)

// Bounds of Denials.
const (
	// MaxKey is how many bytes of a key an event shows. Callers whose keys differ only
	// after these bytes count as one.
	MaxKey = 256
	// stripeMost bounds the limits and callers that each stripe remembers. A stripe is a
	// part of the memory with a lock of its own, so threads seldom wait for each other.
	stripes    = 16
	stripeMost = 512
	// maxASecond bounds the events of denials per second. Denials beyond it are counted,
	// and the next event of their limit and caller shows their number. If that limit and
	// caller had no event yet, the denials are dropped.
	maxASecond = 1000

	second = int64(time.Second)
)

// Denial describes what denied some calls.
type Denial struct {
	Type          Type // Denied or Shadow
	Policy, Limit string
	Reason        string
	Key           []byte // the counter's key; nil if there is none
}

// Denials makes events of denials. It makes at most one per second for each limit, reason
// and key.
type Denials struct {
	log     *Log
	seed    maphash.Seed
	dropped atomic.Uint64
	made    PerSecond
	stripes [stripes]stripe
}

type stripe struct {
	// mu guards the fields below.
	mu      sync.Mutex
	counted map[string]*counted
	name    []byte // scratch
}

// counted holds the denials of one limit, reason and key.
type counted struct {
	event Event
	at    int64  // engine time in ns of the last event
	more  uint64 // denials since the last event
}

// NewDenials returns Denials that post to a log.
func NewDenials(log *Log) *Denials {
	d := &Denials{log: log, seed: maphash.MakeSeed()}
	for i := range d.stripes {
		d.stripes[i].counted = make(map[string]*counted)
	}
	return d
}

// Listening reports whether anybody listens to the log.
func (d *Denials) Listening() bool { return d.log.Listening() }

// Dropped returns how many denials were dropped.
func (d *Denials) Dropped() uint64 { return d.dropped.Load() }

// Note notes a denied call. now is the engine time in ns.
func (d *Denials) Note(now int64, what *Denial) {
	key := what.Key[:min(len(what.Key), MaxKey)]
	s := &d.stripes[maphash.Bytes(d.seed, key)%stripes]
	s.mu.Lock()
	defer s.mu.Unlock()
	s.name = append(append(append(s.name[:0], what.Type...), 0), what.Policy...)
	s.name = append(append(append(s.name, 0), what.Limit...), 0)
	s.name = append(append(append(s.name, what.Reason...), 0), key...)
	c := s.counted[string(s.name)]
	if c != nil {
		c.more++
		if now-c.at >= second && d.may(now) {
			d.tell(c, now)
		}
		return
	}
	if len(s.counted) == stripeMost || !d.may(now) {
		d.dropped.Add(1)
		return
	}
	c = &counted{event: Event{Type: what.Type, Policy: what.Policy, Limit: what.Limit, Reason: what.Reason, Key: string(key)}, more: 1}
	s.counted[string(s.name)] = c
	d.tell(c, now)
}

// Begun posts an event that a limit has begun to block a caller, for lasts ns.
func (d *Denials) Begun(now int64, policy, limit string, key []byte, lasts int64) {
	if !d.may(now) {
		d.dropped.Add(1)
		return
	}
	d.log.Post(Event{
		At: now / 1e6, Type: Penalty, Policy: policy, Limit: limit, Key: string(key[:min(len(key), MaxKey)]),
		For: (lasts + 1e6 - 1) / 1e6,
	})
}

// may reports whether another event may be made in this second. If so, it counts the event.
func (d *Denials) may(now int64) bool { return d.made.May(now, maxASecond) }

// tell posts an event with the counted denials. The caller holds the stripe's mu.
func (d *Denials) tell(c *counted, now int64) {
	c.event.At, c.event.Count = now/1e6, c.more
	d.log.Post(c.event)
	c.at, c.more = now, 0
}

// Sweep posts events for denials that were counted at least a second ago, and forgets
// callers without further denials. If all is set, because nobody listens any more, it posts
// and forgets everything.
func (d *Denials) Sweep(now int64, all bool) {
	for i := range d.stripes {
		s := &d.stripes[i]
		s.mu.Lock()
		for name, c := range s.counted {
			switch {
			case !all && now-c.at < second:
			case c.more == 0:
				delete(s.counted, name)
			case all || d.may(now):
				d.tell(c, now)
			}
			if all {
				delete(s.counted, name)
			}
		}
		s.mu.Unlock()
	}
}
