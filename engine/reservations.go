package engine

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/engine/reservation"
	"github.com/headgate-io/headgate/shard"
)

var (
	// ErrNoHold is returned for a reservation that does not exist.
	ErrNoHold = errors.New("there is no such hold")
	// ErrRepeated is returned for a call whose reservation already exists.
	ErrRepeated = errors.New("the call has been made before")
)

// reservations is an index of the reservations of a deciding node: when each ends, and
// which are settled, in the order of settlement. It is local to the node, and is rebuilt
// from the table when the node begins to decide.
type reservations struct {
	// mu guards the fields below.
	mu    sync.Mutex
	index reservation.Index
	// reign is the engine's reign for which this index is valid.
	reign uint64

	// count is roughly the number of reservations.
	count atomic.Int64
	// most is MaxReservations, except in tests.
	most int64
	// evicted counts the reservations that made room for others.
	evicted atomic.Uint64
}

// add records a reservation whose key has the hash, and when it ends.
func (h *reservations) add(now, ends int64, hash uint64) {
	h.count.Add(1)
	h.again(now, ends, hash)
}

// again is add for a reservation that is already known.
func (h *reservations) again(now, ends int64, hash uint64) {
	h.mu.Lock()
	h.index.Enter(now, ends, hash)
	h.mu.Unlock()
}

// settled records that the reservation whose key has the hash is settled, and until when
// it is kept.
func (h *reservations) settled(until int64, hash uint64) {
	h.mu.Lock()
	h.index.Settle(until, hash)
	h.mu.Unlock()
}

const (
	// victimsMost is how many reservations are dropped at once, at most 1/victimsShare of
	// the bound. Their records are old and not in the caches, so they are prefetched
	// together.
	victimsMost  = 16
	victimsShare = 1 << 12
	// victimsTries bounds how often a search for existing victims is repeated.
	victimsTries = 4
)

// makeRoom drops reservations if there are too many: their charges stay. It must not run
// in a step. So a step that isolates keys may exceed the bound by some.
func (h *reservations) makeRoom(s *Session) {
	if h.count.Load() < h.most || s.step.isolated || s.step.joined {
		return
	}
	most := max(1, min(victimsMost, h.most/victimsShare))
	for range victimsTries {
		var victims [victimsMost]reservation.Victim
		n := 0
		h.mu.Lock()
		for ok := true; int64(n) < most; n++ {
			if victims[n], ok = h.index.Victim(); !ok {
				break
			}
		}
		h.mu.Unlock()
		if n == 0 || s.dropReservations(victims[:n]) {
			return
		}
	}
}

// dropReservations deletes records of reservations, and reports whether any existed.
func (s *Session) dropReservations(victims []reservation.Victim) bool {
	t, dropped := s.e.table, int64(0)
	for _, v := range victims {
		t.PrefetchSlot(v.Hash)
	}
	for _, v := range victims {
		t.PrefetchDelete(v.Hash)
	}
	for _, v := range victims {
		if s.dropReservation(v.Hash, v.Settled) {
			dropped++
		}
	}
	s.e.reservations.count.Add(-dropped)
	s.e.reservations.evicted.Add(uint64(dropped))
	return dropped > 0
}

// dropReservation deletes the record of a reservation. If a victim was chosen as settled,
// but a new call has reopened its name, it is kept.
func (s *Session) dropReservation(hash uint64, settled bool) bool {
	sh, err := s.look(hash)
	if err != nil {
		return false
	}
	defer s.unlock(sh)
	ent, ok := s.e.findReservation(sh, hash)
	if !ok || settled && reservation.StateOf(ent.State()) == reservation.Open {
		return false
	}
	sh.Delete(ent)
	return true
}

// findReservation returns the record of a reservation whose key has the hash. Its shard
// must be locked. If two keys have one hash, it finds only one. The other is found late,
// or by a caller that knows its key.
func (e *Engine) findReservation(sh *shard.Shard, hash uint64) (shard.Entry, bool) {
	return sh.FindHash(hash, func(ent shard.Entry) bool {
		return e.limits.get(ent.Meta()).Limit.DB == algo.HoldSpace && e.hash(algo.HoldSpace, ent.Key()) == hash
	})
}

// HoldsEvicted returns how many reservations have made room for others.
func (e *Engine) HoldsEvicted() uint64 { return e.reservations.evicted.Load() }

// Reservations that have ended are settled for up to expireBusy at once, then comes a
// rest. So calls keep the processor and the log even if a million end in one second.
const (
	expireEvery = time.Second
	expireBusy  = 250 * time.Microsecond
	expireRest  = 750 * time.Microsecond
)

// expire settles reservations that have ended, until ctx is done.
func (s *shared) expire(ctx context.Context) {
	sessions := make([]*Session, len(s.engines))
	for i, e := range s.engines {
		sessions[i] = e.NewSession()
		defer sessions[i].Close()
	}
	tick := time.NewTicker(expireEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			for i, e := range s.engines {
				e.SettleEnded(ctx, sessions[i], e.Now())
			}
		}
	}
}

// pace makes long work rest at intervals.
type pace struct {
	ctx   context.Context
	begin time.Time
}

// rest waits a while if the work has gone on for long enough. It returns false if the
// work must end.
func (p *pace) rest() bool {
	if time.Since(p.begin) < expireBusy {
		return true
	}
	select {
	case <-p.ctx.Done():
		return false
	case <-time.After(expireRest):
	}
	p.begin = time.Now()
	return true
}

// SettleEnded settles the reservations that have ended by now, if this node decides. s
// must be a session of e.
func (e *Engine) SettleEnded(ctx context.Context, s *Session, now int64) {
	if e.sealed.Load() {
		return
	}
	p := &pace{ctx, time.Now()}
	e.recount(now, p)
	h := &e.reservations
	var key []byte
	for {
		h.mu.Lock()
		hashes := h.index.Take(now)
		h.index.Forget(now)
		h.mu.Unlock()
		if hashes == nil {
			return
		}
		e.table.Prefetch(hashes)
		for _, hash := range hashes {
			var ok bool
			if key, ok = e.openReservation(key[:0], hash); !ok {
				continue
			}
			_, err := s.Settle(now, key, Settlement{State: reservation.Released})
			switch {
			case errors.Is(err, ErrSealed): // the node that decides now has an index of its own
				return
			case errors.Is(err, ErrFull): // later
				h.again(now, now, hash)
			}
			if !p.rest() {
				return
			}
		}
	}
}

// openReservation appends the key of the open reservation whose key has the hash. ok is
// false if there is none.
func (e *Engine) openReservation(b []byte, hash uint64) (key []byte, ok bool) {
	sh := e.table.At(hash)
	sh.Lock()
	defer sh.Unlock()
	ent, ok := e.findReservation(sh, hash)
	if !ok || reservation.StateOf(ent.State()) != reservation.Open {
		return b, false
	}
	return append(b, ent.Key()...), true
}

// staleKeys is how many hashes the index may have beyond twice the number of
// reservations.
const staleKeys = 1 << 16

// recount rebuilds the index in a new reign, or when most of its hashes belong to
// reservations that are settled or gone.
func (e *Engine) recount(now int64, p *pace) {
	h := &e.reservations
	n := e.Reservations()
	h.count.Store(int64(n))
	reign := e.reign.Load()
	h.mu.Lock()
	anew := h.reign != reign || h.index.DoneKeys > 2*n+staleKeys
	if anew {
		h.reign, h.index = reign, reservation.Index{}
	}
	var due []reservation.Queue
	if h.index.DueKeys > 2*n+staleKeys {
		due = h.index.TakeDue()
	}
	h.mu.Unlock()
	switch {
	case anew && n > 0:
		e.indexTable(now, p)
	case due != nil:
		e.indexAgain(due, now, p)
	}
}

// indexTable puts all reservations of the table into the index.
func (e *Engine) indexTable(now int64, p *pace) {
	h := &e.reservations
	type found struct {
		hash  uint64
		until int64
		open  bool
	}
	var all []found
	for cursor := uint64(0); ; {
		all = all[:0]
		cursor = e.table.Scan(cursor, boundedHold, func(ent shard.Entry) {
			if e.limits.get(ent.Meta()).Limit.DB != algo.HoldSpace {
				return
			}
			f := found{hash: e.hash(algo.HoldSpace, ent.Key()), until: ent.Deadline()}
			if f.open = reservation.StateOf(ent.State()) == reservation.Open; f.open {
				f.until -= reservation.UnsettledFor
			}
			all = append(all, f)
		})
		h.mu.Lock()
		for _, f := range all {
			if f.open {
				h.index.Enter(now, f.until, f.hash)
			} else {
				h.index.Settle(f.until, f.hash)
			}
		}
		h.mu.Unlock()
		if cursor == 0 || !p.rest() {
			return
		}
	}
}

// indexAgain puts the hashes of open reservations in due into the index again.
func (e *Engine) indexAgain(due []reservation.Queue, now int64, p *pace) {
	h := &e.reservations
	for i := range due {
		for q := &due[i]; !q.Empty(); {
			hashes := q.Drop().Left()
			e.table.Prefetch(hashes)
			for _, hash := range hashes {
				sh := e.table.At(hash)
				sh.Lock()
				ent, ok := e.findReservation(sh, hash)
				ends := int64(0)
				if ok = ok && reservation.StateOf(ent.State()) == reservation.Open; ok {
					ends = ent.Deadline() - reservation.UnsettledFor
				}
				sh.Unlock()
				if ok {
					h.again(now, ends, hash)
				}
			}
			if !p.rest() {
				return
			}
		}
	}
}

// ReservationKeys returns the keys that a settlement of the hold under key touches, its
// own key first.
func (e *Engine) ReservationKeys(key []byte) [][]byte {
	keys := [][]byte{key}
	hash := e.hash(algo.HoldSpace, key)
	sh := e.table.At(hash)
	sh.Lock()
	defer sh.Unlock()
	if ent, ok := sh.Find(hash, key); ok {
		if r, ok := reservation.Read(ent.State()); ok {
			for i := range r.Limits {
				keys = append(keys, r.Limits[i].Key)
			}
		}
	}
	return keys
}

// Reaches reports whether the session may touch a key: it isolates no keys, holds the
// key's shard, or can lock it at once.
func (s *Session) Reaches(key []byte) bool {
	return !s.step.isolated || s.includes(s.e.hash(algo.HoldSpace, key))
}

// Reservation returns what is known of the hold under a key. Errors: ErrNoHold,
// ErrSealed, ErrNotIsolated.
func (s *Session) Reservation(now int64, key []byte) (reservation.Record, error) {
	hash := s.e.hash(algo.HoldSpace, key)
	sh, err := s.look(hash)
	if err != nil {
		return reservation.Record{}, err
	}
	defer s.unlock(sh)
	ent, ok := sh.Find(hash, key)
	if !ok || ent.Expired(now) {
		return reservation.Record{}, ErrNoHold
	}
	r, ok := reservation.Read(ent.State())
	if !ok {
		return reservation.Record{}, ErrNoHold
	}
	return r, nil
}

// Repeat is Reservation for a repeat of the call, which has a name. If another engine decides
// a part of the call, Repeat marks the record, so that nobody cancels the charge. until is
// when the record is forgotten if nothing renews it, engine time in ns. It also returns
// ErrUndoFull.
func (s *Session) Repeat(now int64, key []byte) (r reservation.Record, until int64, err error) {
	hash := s.e.hash(algo.HoldSpace, key)
	sh, err := s.lock(hash, key)
	if err != nil {
		return r, 0, err
	}
	defer s.unlock(sh)
	ent, ok := sh.Find(hash, key)
	if !ok || ent.Expired(now) {
		return r, 0, ErrNoHold
	}
	if r, ok = reservation.Read(ent.State()); !ok {
		return r, 0, ErrNoHold
	}
	if r.Part && !r.Asked {
		sh.Touch(ent)
		reservation.MarkAsked(ent.State())
	}
	return r, ent.Deadline(), nil
}

// Reservations returns the number of reservations, including settled ones.
func (e *Engine) Reservations() int { return e.table.SpaceLen(algo.HoldSpace) }

// reservationLimit is the limit that all reservation records carry.
var reservationLimit = algo.Limit{Algorithm: algo.HoldRecord, DB: algo.HoldSpace}

// describeReservation fills in the state alone; RL.EXPLAIN of a hold asks for its limits
// elsewhere.
func describeReservation(x *Explanation, ent shard.Entry) {
	if st := reservation.StateOf(ent.State()); st <= reservation.None {
		x.Facts = append(x.Facts, algo.Fact{Name: "state", Text: st.String()})
	}
}
