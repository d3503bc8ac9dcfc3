package engine

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate-io/headgate/shard"
)

// holds is what a node that decides knows of its reservations, beside their
// records: which end when, and which are settled, in the order of that. It is
// memory of this node alone, and made anew of the table when the node begins to
// decide.
type holds struct {
	// mu guards what follows.
	mu sync.Mutex
	// due has the keys of those that end in a second, by Unix second; next is the
	// first that was not looked at.
	due  map[int64][]string
	next int64
	// dueKeys is how many keys due has, those of reservations that are settled
	// meanwhile included.
	dueKeys int
	// done has the keys of those that are settled, oldest first, from head on.
	done []settledKey
	head int

	// reign is that of the engine for which this is.
	reign uint64

	// count is about how many reservations there are.
	count atomic.Int64
	// most is MaxReservations, but in tests.
	most int64
	// evicted counts those that made room for others.
	evicted atomic.Uint64
}

// settledKey is the key of a reservation that is settled, and until when it is
// kept.
type settledKey struct {
	key   string
	until int64
}

const holdTick = int64(time.Second)

// add notes that the reservation under key ends at a time.
func (h *holds) add(ends int64, key []byte) {
	h.count.Add(1)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.enter(ends, string(key))
}

// enter is add without the count. mu must be held.
func (h *holds) enter(ends int64, key string) {
	if h.due == nil {
		h.due = make(map[int64][]string)
	}
	// Behind its end, so that what is found in it has ended.
	at := ends/holdTick + 1
	if at < h.next {
		at = h.next
	}
	h.due[at] = append(h.due[at], key)
	h.dueKeys++
}

// settled notes that the reservation under key is settled, and kept until a time.
func (h *holds) settled(until int64, key []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.done = append(h.done, settledKey{string(key), until})
}

// take returns the keys of reservations that have ended by now, a second's at most;
// ok is false when there are none left.
func (h *holds) take(now int64) (keys []string, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	last := now / holdTick
	if len(h.due) == 0 {
		h.next = last
		return nil, false
	}
	if h.next < last-2*int64(MaxHoldTTL)/holdTick { // the clock has jumped, or this is the first look
		h.next = last
		for at := range h.due {
			h.next = min(h.next, at)
		}
	}
	for ; h.next <= last; h.next++ {
		if keys := h.due[h.next]; len(keys) > 0 {
			delete(h.due, h.next)
			h.dueKeys -= len(keys)
			return keys, true
		}
	}
	return nil, false
}

// forget drops from done what is not kept any more.
func (h *holds) forget(now int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for h.head < len(h.done) && h.done[h.head].until < now {
		h.done[h.head].key = ""
		h.head++
	}
	if h.head > len(h.done)/2 {
		h.done = append(h.done[:0:0], h.done[h.head:]...)
		h.head = 0
	}
}

// victim returns the key of a reservation that is to make room: the one that was
// settled first, or else one of those that end first.
func (h *holds) victim() (key string, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.head < len(h.done) {
		key = h.done[h.head].key
		h.done[h.head].key = ""
		h.head++
		return key, true
	}
	first, found := int64(0), false
	for at := range h.due {
		if !found || at < first {
			first, found = at, true
		}
	}
	if !found {
		return "", false
	}
	keys := h.due[first]
	key = keys[0]
	if h.due[first] = keys[1:]; len(keys) == 1 {
		delete(h.due, first)
	}
	h.dueKeys--
	return key, true
}

// victimsMost bounds how many reservations one makes room in place of.
const victimsMost = 4

// makeRoom drops reservations where there are too many: what they have charged
// stays charged. The session must hold nothing for that; a step that holds keys may
// bring some more.
func (h *holds) makeRoom(s *Session) {
	if h.count.Load() < h.most || s.held.active || s.held.joined {
		return
	}
	for range victimsMost {
		key, ok := h.victim()
		if !ok {
			return
		}
		if s.dropReservation([]byte(key)) {
			h.count.Add(-1)
			h.evicted.Add(1)
			return
		}
	}
}

// dropReservation deletes the record of a reservation.
func (s *Session) dropReservation(key []byte) bool {
	hash := s.e.hash(internal, key)
	sh, err := s.lock(hash, key)
	if err != nil {
		return false
	}
	defer s.unlock(sh)
	ent, ok := sh.Find(hash, key)
	if ok {
		sh.Delete(ent)
	}
	return ok
}

// HoldsEvicted returns how many reservations have made room for others.
func (e *Engine) HoldsEvicted() uint64 { return e.holds.evicted.Load() }

// How reservations that have ended are settled: up to expireBusy at once, and then
// a rest, so that a million of them that end in one second take neither the
// processor nor the log from calls.
const (
	expireEvery = time.Second
	expireBusy  = time.Millisecond
	expireRest  = 4 * time.Millisecond
)

// expire settles reservations that have ended, until ctx is done.
func (e *Engine) expire(ctx context.Context) {
	s := e.NewSession()
	defer s.Close()
	tick := time.NewTicker(expireEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			e.SettleEnded(ctx, s, e.Now())
		}
	}
}

// SettleEnded settles the reservations that have ended by now, if this node
// decides. s must be of the engine.
func (e *Engine) SettleEnded(ctx context.Context, s *Session, now int64) {
	if e.sealed.Load() {
		return
	}
	e.recount()
	h := &e.holds
	begin := time.Now()
	for {
		keys, ok := h.take(now)
		if !ok {
			break
		}
		for i, key := range keys {
			_, err := s.Settle(now, []byte(key), Settlement{State: HoldReleased})
			switch {
			case errors.Is(err, ErrSealed): // whoever decides now has an index of its own
				return
			case errors.Is(err, ErrFull): // later
				h.mu.Lock()
				h.enter(now, key)
				h.mu.Unlock()
			}
			if time.Since(begin) < expireBusy || i == len(keys)-1 {
				continue
			}
			select {
			case <-ctx.Done():
				return
			case <-time.After(expireRest):
			}
			begin = time.Now()
		}
	}
	h.forget(now)
}

// recount brings the index up to date where it is not: in a new reign, or when most
// of what it has is of reservations that are settled.
func (e *Engine) recount() {
	h := &e.holds
	n := e.Reservations()
	h.count.Store(int64(n))
	h.mu.Lock()
	reign := e.reign.Load()
	stale := h.reign != reign || h.dueKeys > 2*n+staleKeys || len(h.done)-h.head > 2*n+staleKeys
	if stale {
		h.reign, h.due, h.dueKeys, h.done, h.head = reign, nil, 0, nil, 0
	}
	h.mu.Unlock()
	if !stale || n == 0 {
		return
	}
	var found []Reservation
	var keys []string
	for cursor := uint64(0); ; {
		found, keys = found[:0], keys[:0]
		cursor = e.table.Scan(cursor, boundedHold, func(ent shard.Entry) {
			if e.limits.get(ent.Meta()).limit.DB != internal {
				return
			}
			if r, ok := readReservation(ent.State()); ok {
				if r.State != HoldOpen {
					r.Ends = ent.Deadline()
				}
				found, keys = append(found, r), append(keys, string(ent.Key()))
			}
		})
		h.mu.Lock()
		for i := range found {
			if r := &found[i]; r.State == HoldOpen {
				h.enter(r.Ends, keys[i])
			} else {
				h.done = append(h.done, settledKey{keys[i], r.Ends})
			}
		}
		h.mu.Unlock()
		if cursor == 0 {
			return
		}
	}
}

// staleKeys is how many keys the index may have beyond those that there are twice.
const staleKeys = 1 << 16

// ReservationKeys returns the keys that a settlement of the hold under key is about,
// its own first.
func (e *Engine) ReservationKeys(key []byte) [][]byte {
	keys := [][]byte{key}
	hash := e.hash(internal, key)
	sh := e.table.At(hash)
	sh.Lock()
	defer sh.Unlock()
	if ent, ok := sh.Find(hash, key); ok {
		if r, ok := readReservation(ent.State()); ok {
			for i := range r.Limits {
				keys = append(keys, r.Limits[i].Key)
			}
		}
	}
	return keys
}

// Reaches tells whether the session may touch a key: it holds none, or that key's
// shard, or can hold it at once.
func (s *Session) Reaches(key []byte) bool {
	return !s.held.active || s.holds(s.e.hash(internal, key))
}
