package engine

import (
	"bytes"
	"errors"

	"github.com/headgate-io/headgate/engine/packed"
	"github.com/headgate-io/headgate/shard"
)

// ErrUndoFull is returned for a change that the undo has no room for: see Isolate. The
// change was not made.
var ErrUndoFull = errors.New("too many changes in one step")

// MaxStep bounds the bytes that an atomic step, such as a transaction or a script, may
// change: its keys and their new states. A step is one batch of the log, for which later
// decisions wait. A step of 40 MB delayed sync calls by 0.1 to 0.8 s.
const MaxStep = 8 << 20

// ErrStepTooLarge is returned for a step that changes more than MaxStep.
var ErrStepTooLarge = errors.New("it changes more than 8388608 bytes in one step")

// undoFew is up to how many keys are searched without an index: most scripts change a key
// or two.
const undoFew = 8

// stepUndo holds the earlier states of the keys that a step has changed. Nested steps
// share it: each owns the keys from its savepoint on. A key is copied when it is first
// changed. The shard's journal cannot serve, since it has the state at the last cut.
type stepUndo struct {
	savepoint
	saved []savedKey
	buf   []byte
	// index maps a hash to the last saved key with it. It is nil until more than undoFew
	// keys are saved.
	index map[uint64]int
	spare map[uint64]int // an empty index, for the next time
}

// savepoint is where a step begins in a stepUndo.
type savepoint struct {
	on   bool
	most int // bytes that the undo may take
	from int // the first of stepUndo.saved that is the step's
}

// savedKey is the earlier state of one key: buf[key:state] is its name, buf[state:end]
// its state.
type savedKey struct {
	hash            uint64
	it              *interned // the key's reference; nil for an absent key
	deadline        int64
	key, state, end int
	before          int          // previous saved key with this hash, or -1: see stepUndo.index
	watch           *shard.Watch // nil if nobody watched the key
	changes         uint64       // watch's count at that time
}

// beginUndo makes the step remember each key's state before its first change.
func (p *Step) beginUndo(most int) {
	if most == 0 {
		return
	}
	u := &p.s.step.undo
	p.undo, p.outer = true, u.savepoint
	if most += u.bytes(); u.on {
		most = min(most, u.most)
	}
	u.savepoint = savepoint{on: true, most: most, from: len(u.saved)}
}

// takeBack restores every key to its state at the savepoint, and drops these states. Each
// step saves a key once at most, so the keys saved last are restored first.
func (s *Session) takeBack(now int64) {
	u := &s.step.undo
	for i := len(u.saved) - 1; i >= u.from; i-- {
		k := &u.saved[i]
		im := shard.Image{Key: u.buf[k.key:k.state], State: u.buf[k.state:k.end], Deadline: k.deadline}
		if k.it != nil {
			im.Meta = k.it.id
		}
		s.e.restore(s.e.table.At(k.hash), k.hash, im, k.it != nil, now)
		if k.watch != nil {
			k.watch.TakeBack(k.changes)
		}
		u.unlink(i)
		u.buf = u.buf[:k.key]
		k.release()
	}
	u.saved = u.saved[:u.from]
}

// fits returns ErrStepTooLarge if the changes since the savepoint, with earlier ones of
// the same outer step, exceed MaxStep.
func (s *Session) fits() error {
	u := &s.step.undo
	changed := s.step.changed
	for i := u.from; i < len(u.saved); i++ {
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
	s.step.changed = changed
	return nil
}

// mostReplicated bounds the bytes of a state that are replicated. A collection travels in
// its wire form, without spare room and index.
const mostReplicated = packed.MaxBytes + 64

// replicated returns a bound on the bytes of a state that travel.
func replicated(state []byte) int { return min(len(state), mostReplicated) }

// merge gives the step's saved keys to the outer step. If the outer step has saved the
// same key, its state is older and stays.
func (u *stepUndo) merge(outer savepoint) {
	from := u.from
	u.savepoint = outer
	if !outer.on {
		u.forget()
		return
	}
	inner := u.saved[from:]
	for i := len(u.saved) - 1; i >= from; i-- {
		u.unlink(i)
	}
	u.saved = u.saved[:from]
	for _, k := range inner {
		if u.has(k.hash, u.buf[k.key:k.state]) {
			k.release()
			continue
		}
		to := 0
		if n := len(u.saved); n > 0 {
			to = u.saved[n-1].end
		}
		copy(u.buf[to:], u.buf[k.key:k.end])
		moved := k.key - to
		k.key, k.state, k.end = to, k.state-moved, k.end-moved
		u.add(k)
	}
	clear(inner[len(u.saved)-from:])
	u.buf = u.buf[:0]
	if n := len(u.saved); n > 0 {
		u.buf = u.buf[:u.saved[n-1].end]
	}
}

// release releases the reference of a saved key.
func (k *savedKey) release() {
	if k.it != nil {
		k.it.refs.Add(-1)
	}
	*k = savedKey{}
}

// forget ends the undo.
func (u *stepUndo) forget() {
	for i := range u.saved {
		u.saved[i].release()
	}
	if cap(u.buf) > undoKept {
		*u = stepUndo{}
		return
	}
	if u.index != nil {
		clear(u.index)
		u.spare = u.index
	}
	*u = stepUndo{saved: u.saved[:0], buf: u.buf[:0], spare: u.spare}
}

// undoKept bounds the memory that a session keeps for its next undo.
const undoKept = 64 << 10

// save remembers the state of a key, unless the step has already done so. The key's shard
// must be locked.
func (s *Session) save(hash uint64, key []byte) error {
	u := &s.step.undo
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
		k.it.refs.Add(1) // keep the limit if the key goes
		u.buf = append(u.buf, ent.State()...)
	}
	k.end = len(u.buf)
	u.add(k)
	return nil
}

// add appends a saved key, and puts it into the index if one exists or is now needed.
func (u *stepUndo) add(k savedKey) {
	u.saved = append(u.saved, k)
	switch n := len(u.saved); {
	case u.index != nil:
		u.link(n - 1)
	case n > undoFew:
		if u.index, u.spare = u.spare, nil; u.index == nil {
			u.index = make(map[uint64]int)
		}
		for i := range u.saved {
			u.link(i)
		}
	}
}

// link puts a saved key into the index, as the last one of its hash.
func (u *stepUndo) link(i int) {
	k := &u.saved[i]
	if before, ok := u.index[k.hash]; ok {
		k.before = before
	} else {
		k.before = -1
	}
	u.index[k.hash] = i
}

// unlink removes a saved key, the last one of its hash, from the index.
func (u *stepUndo) unlink(i int) {
	switch k := &u.saved[i]; {
	case u.index == nil:
	case k.before < 0:
		delete(u.index, k.hash)
	default:
		u.index[k.hash] = k.before
	}
}

// savedBytes is what a saved key takes beside its name and state.
const savedBytes = 112

func (u *stepUndo) bytes() int { return len(u.buf) + len(u.saved)*savedBytes }

// full reports whether there is no room for another key.
func (u *stepUndo) full() bool { return u.on && u.bytes() > u.most }

// has reports whether the step has saved a key.
func (u *stepUndo) has(hash uint64, key []byte) bool {
	if u.index == nil {
		for i := u.from; i < len(u.saved); i++ {
			if u.is(i, hash, key) {
				return true
			}
		}
		return false
	}
	i, ok := u.index[hash]
	for ; ok && i >= u.from; i = u.saved[i].before {
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
