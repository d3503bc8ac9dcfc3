package engine

import (
	"bytes"
	"errors"

	"github.com/headgate-io/headgate/engine/algo"
)

// Scratch is a small table of copies for a long step, such as a slow script. With it, the
// step locks nothing while it works. Bring copies the keys that the step is about to touch,
// and the Scratch's own session works on the copies. Commit stores the changed copies in
// one atomic step, unless a brought key has changed in the table meanwhile. It is for one
// goroutine at a time.
//
// It is optimistic, since the keys of a slow step are seldom hot. With locks, other
// commands would wait for the slow step, on a loop with thousands of connections.
type Scratch struct {
	own  *Engine
	s    *Session
	keys []broughtKey
	at   map[string]struct{} // copied keys, by database and key
	room int64               // bytes that copies may still take
	now  []byte              // scratch for the present words of a key
}

// broughtKey is a copied key, and its state at that time.
type broughtKey struct {
	db   uint8
	key  []byte
	was  keyState
	copy Watch
}

// keyState is the state of a key; the zero value is an absent key.
type keyState struct {
	found    bool
	limit    algo.Limit
	deadline int64
	words    []byte
}

func (k keyState) equal(other keyState) bool {
	return k.found == other.found && k.limit == other.limit && k.deadline == other.deadline && bytes.Equal(k.words, other.words)
}

const (
	// scratchRoom is the memory that the copies of a Scratch may take.
	scratchRoom = 64 << 20
	// scratchKeys bounds the copied keys. Storing takes a microsecond per key, for which
	// others wait.
	scratchKeys = 32 << 10
	// broughtBytes is what a copied key takes beside its names and states.
	broughtBytes = 350
)

// NewScratch returns a Scratch for keys of e.
func (e *Engine) NewScratch() *Scratch {
	own := New(Config{Shards: 1, MaxBytes: scratchRoom, LogMaxEntries: e.logMaxEntries, TopK: 1, Clock: e.clock})
	own.policies.void.Store(e.policies.void.Load()) // what is void is void in a copy too
	return &Scratch{own: own, s: own.NewSession(), at: make(map[string]struct{}), room: scratchRoom}
}

// Session returns the session that works on the copies.
func (c *Scratch) Session() *Session { return c.s }

// Bytes returns the memory of the copies. A key is kept twice: as it was, and as it is
// now.
func (c *Scratch) Bytes() int64 { return c.own.table.Bytes() + scratchRoom - c.room }

// Bring copies keys of the database of main, as they are now. Keys that were brought
// before keep their copies. Errors: ErrSealed, and ErrUndoFull if the copies take too
// much memory.
func (c *Scratch) Bring(main *Session, now int64, keys ...[]byte) error {
	for _, key := range keys {
		name := string(append([]byte{main.db}, key...))
		if _, known := c.at[name]; known {
			continue
		}
		was, err := main.state(nil, key)
		if err != nil {
			return err
		}
		if c.room -= int64(len(key) + len(was.words) + broughtBytes); c.room < 0 || len(c.keys) == scratchKeys {
			return ErrUndoFull
		}
		c.s.Use(main.db)
		if err := c.s.setState(now, key, was); errors.Is(err, ErrFull) {
			return ErrUndoFull
		} else if err != nil {
			return err
		}
		watched, err := c.s.Watch(now, key)
		if err != nil {
			return err
		}
		c.at[name] = struct{}{}
		c.keys = append(c.keys, broughtKey{main.db, []byte(name[1:]), was, watched})
		if was.limit.Leased { // a decision reads what is out, too
			db := main.db
			main.Use(algo.LeaseSpace)
			err := c.Bring(main, now, key)
			main.Use(db)
			if err != nil {
				return err
			}
		}
	}
	c.s.Use(main.db)
	return nil
}

// Commit stores the copies that have changed. It returns false, and has stored nothing, if
// a brought or watched key has changed in the table since. After an error nothing is
// stored either. The errors are ErrSealed, ErrFull, ErrStepTooLarge.
func (c *Scratch) Commit(main *Session, now int64, watched []Watch) (bool, error) {
	keys := make([][]byte, 0, len(c.keys)+len(watched))
	for i := range c.keys {
		keys = append(keys, c.keys[i].key)
	}
	for i := range watched {
		keys = append(keys, watched[i].Key())
	}
	defer main.Use(main.db)
	step := main.Isolate(now, keys, 2*scratchRoom)
	stored, err := c.store(main, now, watched)
	if !stored {
		step.Rollback()
		return false, err
	}
	if err := step.Commit(); err != nil {
		return false, err
	}
	return true, nil
}

// store is Commit within its step. The caller rolls the step back unless all was stored.
func (c *Scratch) store(main *Session, now int64, watched []Watch) (bool, error) {
	for i := range watched {
		if same, err := main.Unchanged(now, &watched[i]); err != nil || !same {
			return false, err
		}
	}
	for _, k := range c.keys {
		main.Use(k.db)
		is, err := main.state(c.now[:0], k.key)
		if err != nil {
			return false, err
		}
		if c.now = is.words; !is.equal(k.was) {
			return false, nil
		}
	}
	for _, k := range c.keys {
		main.Use(k.db)
		c.s.Use(k.db)
		is, err := c.s.state(c.now[:0], k.key)
		switch c.now = is.words; {
		case err != nil:
		case !is.equal(k.was):
			err = main.setState(now, k.key, is)
		case k.copy.on.Changes() != k.copy.changes:
			err = main.changed(k.key)
		}
		if err != nil {
			return false, err
		}
	}
	return true, nil
}

// Reset forgets all copies.
func (c *Scratch) Reset() {
	for i := range c.keys {
		k := &c.keys[i]
		k.copy.End()
		c.s.Use(k.db)
		_, _ = c.s.Delete(0, k.key)
	}
	c.s.Use(0)
	c.keys, c.now, c.room = nil, nil, scratchRoom
	clear(c.at)
}

// state returns the state of a key, and appends its words to b.
func (s *Session) state(b []byte, key []byte) (keyState, error) {
	hash := s.hash(key)
	sh, err := s.look(hash)
	if err != nil {
		return keyState{words: b}, err
	}
	defer s.unlock(sh)
	ent, found := sh.Find(hash, key)
	if !found {
		return keyState{words: b}, nil
	}
	return keyState{true, s.e.limits.get(ent.Meta()).Limit, ent.Deadline(), append(b, ent.State()...)}, nil
}

// changed marks a key as written for its watchers, if the write has not changed it.
func (s *Session) changed(key []byte) error {
	hash := s.hash(key)
	sh, err := s.lock(hash, key)
	if err != nil {
		return err
	}
	defer s.unlock(sh)
	sh.Changed(hash, key)
	return nil
}

// setState gives a key a state that state has returned. On an error the key is unchanged.
func (s *Session) setState(now int64, key []byte, k keyState) error {
	if !k.found {
		_, err := s.Delete(now, key)
		return err
	}
	it, err := s.rule(k.limit)
	if err != nil {
		return err
	}
	hash := s.hash(key)
	sh, err := s.lock(hash, key)
	if err != nil {
		return err
	}
	defer s.unlock(sh)
	p := plan{it: it, hash: hash, key: key}
	p.ent, p.found = sh.Find(hash, key)
	if err := s.place(&p, sh, len(k.words)/8, k.deadline, now); err != nil {
		return err
	}
	copy(p.ent.State(), k.words)
	return nil
}
