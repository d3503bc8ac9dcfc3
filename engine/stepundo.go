package engine

import (
	"bytes"
	"errors"

	"github.com/headgate-io/headgate/engine/packed"
	"github.com/headgate-io/headgate/shard"
)

// ErrUndoFull is returned for a change whose undo has no room: see BeginUndo.
// The change has not been made.
var ErrUndoFull = errors.New("too much is changed in one step")

// MaxStep bounds what one atomic step may change, such as a transaction or a script: the
// bytes of the keys and of what they have become. A step travels as one batch of the log,
// and what is decided later waits for all of it.
const MaxStep = 8 << 20

// ErrStepTooLarge is returned for a step that changes more than MaxStep.
var ErrStepTooLarge = errors.New("it changes more than 8388608 bytes in one step")

// undoFew is how many keys are looked through in turn before an index of them
// is made: most scripts change a key or two.
const undoFew = 8

// stepUndo is what the keys that a step has changed were before it.
type stepUndo struct {
	on    bool
	most  int // bytes that it may take
	saved []savedKey
	buf   []byte
	// index finds a saved key by its hash once there are more than undoFew;
	// of several of a hash, one.
	index map[uint64]int
}

// savedKey is what one key was: buf[key:state] is its name, buf[state:end] its
// state.
type savedKey struct {
	hash            uint64
	it              *interned // of which it has a reference; nil for an absent key
	deadline        int64
	key, state, end int
	watch           *shard.Watch // nil if nobody watched the key
	changes         uint64       // that watch had counted
}

// BeginUndo has the session remember what each key was that it changes from
// here on, so that Rollback can take all of it back. The session must hold keys
// (see Hold) and do so until Rollback or KeepAll. most bounds the memory that
// this may take, in bytes, but for the key that passes it: what follows that one
// is ErrUndoFull.
func (s *Session) BeginUndo(most int) {
	u := &s.held.undo
	u.on, u.most = true, most
}

// Rollback makes every key what it was at BeginUndo, whatever the limit of
// memory, also for who watches it: nobody has seen it otherwise. What was
// evicted for room, and was not changed by the session itself, stays away, as
// with any eviction.
func (s *Session) Rollback(now int64) {
	u := &s.held.undo
	for i := range u.saved {
		k := &u.saved[i]
		im := shard.Image{Key: u.buf[k.key:k.state], State: u.buf[k.state:k.end], Deadline: k.deadline}
		if k.it != nil {
			im.Meta = k.it.id
		}
		s.e.restore(s.e.table.At(k.hash), k.hash, im, k.it != nil, now)
		if k.watch != nil {
			k.watch.TakeBack(k.changes)
		}
	}
	s.KeepAll()
}

// Fits is ErrStepTooLarge if what has changed since BeginUndo is more than MaxStep, with
// what has fitted before since Hold, or Join, began. It is for who can still call Rollback.
func (s *Session) Fits() error {
	u := &s.held.undo
	changed := s.held.changed
	for i := range u.saved {
		k := &u.saved[i]
		key := u.buf[k.key:k.state]
		changed += len(key)
		if ent, found := s.e.table.At(k.hash).Find(k.hash, key); found {
			changed += replicated(ent.State())
		}
	}
	if changed > MaxStep {
		return ErrStepTooLarge
	}
	s.held.changed = changed
	return nil
}

// mostReplicated is how many bytes of a state travel at most: of a collection its wire
// form, without room and index.
const mostReplicated = packed.MaxBytes + 64

// replicated bounds how many bytes of a state travel.
func replicated(state []byte) int { return min(len(state), mostReplicated) }

// KeepAll ends what BeginUndo began and leaves everything as it is.
func (s *Session) KeepAll() {
	u := &s.held.undo
	for i := range u.saved {
		if it := u.saved[i].it; it != nil {
			it.refs.Add(-1)
		}
	}
	if cap(u.buf) > undoKept {
		*u = stepUndo{}
		return
	}
	clear(u.index)
	clear(u.saved) // it has pointers
	*u = stepUndo{saved: u.saved[:0], buf: u.buf[:0], index: u.index}
}

// undoKept bounds the memory that a session keeps for its next undo.
const undoKept = 64 << 10

// save remembers what a key is, unless it has been remembered. The key's shard
// must be held.
func (s *Session) save(hash uint64, key []byte) error {
	u := &s.held.undo
	if u.has(hash, key) {
		return nil
	}
	if u.full() {
		return ErrUndoFull
	}
	sh := s.e.table.At(hash)
	sh.Keep(hash)
	ent, found := sh.Find(hash, key)
	k := savedKey{hash: hash, key: len(u.buf), watch: sh.Watched(hash, key)}
	if k.watch != nil {
		k.changes = k.watch.Changes()
	}
	u.buf = append(u.buf, key...)
	k.state = len(u.buf)
	if found {
		k.it, k.deadline = s.e.limits.get(ent.Meta()), ent.Deadline()
		k.it.refs.Add(1) // nothing else keeps it when the key is gone
		u.buf = append(u.buf, ent.State()...)
	}
	k.end = len(u.buf)
	u.saved = append(u.saved, k)
	u.enter(len(u.saved) - 1)
	return nil
}

// enter puts a saved key into the index, if there is one or has to be.
func (u *stepUndo) enter(i int) {
	switch n := len(u.saved); {
	case n <= undoFew:
	case len(u.index) == 0:
		if u.index == nil {
			u.index = make(map[uint64]int)
		}
		for j := range u.saved {
			u.index[u.saved[j].hash] = j
		}
	default:
		u.index[u.saved[i].hash] = i
	}
}

// savedBytes is what a saved key takes beside its name and state.
const savedBytes = 112

// full reports whether there is no room for another key.
func (u *stepUndo) full() bool { return u.on && len(u.buf)+len(u.saved)*savedBytes > u.most }

// has reports whether a key has been saved.
func (u *stepUndo) has(hash uint64, key []byte) bool {
	if len(u.saved) > undoFew {
		i, ok := u.index[hash]
		if !ok {
			return false
		}
		if u.is(i, hash, key) {
			return true
		}
	}
	for i := range u.saved {
		if u.is(i, hash, key) {
			return true
		}
	}
	return false
}

func (u *stepUndo) is(i int, hash uint64, key []byte) bool {
	k := &u.saved[i]
	return k.hash == hash && bytes.Equal(u.buf[k.key:k.state], key)
}
