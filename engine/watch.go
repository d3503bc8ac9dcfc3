package engine

import "github.com/headgate-io/headgate/shard"

// Watch is a key that is watched from Session.Watch to End, and its state when that
// began. For what counts as a change, see shard.Watch. Changes are counted, because a
// comparison of states would miss a change and its reversal.
type Watch struct {
	e       *Engine
	hash    uint64
	on      *shard.Watch
	changes uint64 // count of changes when the watch began
	reign   uint64 // reign of the engine when the watch began
	live    bool   // when the watch began, the key existed and had not expired
}

// Watch begins to watch a key of the session's database. Errors: ErrSealed,
// ErrNotIsolated; nothing is watched then.
func (s *Session) Watch(now int64, key []byte) (Watch, error) {
	hash := s.hash(key)
	sh, err := s.look(hash)
	if err != nil {
		return Watch{}, err
	}
	defer s.unlock(sh)
	on := sh.Watch(hash, key)
	return Watch{s.e, hash, on, on.Changes(), s.e.reign.Load(), live(sh, hash, key, sh.Advance(now))}, nil
}

// Unchanged reports whether nobody has written to the key of w since Watch, not even the
// same value. A key that has expired since has changed. A key that had expired before,
// and is removed, has not. If this node has begun to lead since, the key counts as
// changed: this node has not counted the writes by others meanwhile. Errors: ErrSealed,
// ErrNotIsolated.
func (s *Session) Unchanged(now int64, w *Watch) (bool, error) {
	sh, err := s.look(w.hash)
	if err != nil {
		return false, err
	}
	defer s.unlock(sh)
	return w.on.Changes() == w.changes && s.e.reign.Load() == w.reign &&
		(!w.live || live(sh, w.hash, w.on.Key(), sh.Advance(now))), nil
}

// Key returns the key, which must not be changed.
func (w *Watch) Key() []byte { return w.on.Key() }

// End ends the watch. No session of the caller may be in a step that isolates keys.
func (w *Watch) End() {
	sh := w.e.table.At(w.hash)
	sh.Lock()
	sh.Unwatch(w.on)
	sh.Unlock()
}

// live reports whether a key exists and has not expired.
func live(sh *shard.Shard, hash uint64, key []byte, now int64) bool {
	ent, found := sh.Find(hash, key)
	return found && !ent.Expired(now)
}

// Watches returns how many keys are watched. It locks each shard for a moment.
func (e *Engine) Watches() (n int) {
	for i := range e.table.Shards() {
		sh := e.table.Shard(i)
		sh.Lock()
		n += sh.Watches()
		sh.Unlock()
	}
	return n
}
