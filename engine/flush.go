package engine

import (
	"sync"

	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/shard"
)

// Flush forgets every key of all databases, in all shards at one instant. System records
// stay. It replicates as one record, in one cut with the session's other decisions of the
// same step. After an error nothing has changed. The errors are ErrSealed, ErrUndoFull,
// and ErrNotIsolated in a step that does not hold the whole table.
func (s *Session) Flush() error {
	_, err := s.flush(func() bool { return true })
	return err
}

// FlushDatabase forgets every key of the session's database. Database 0 has the counters
// of policies and leased limits, so with it all reservations, offences and leases go too. If no other database has
// keys, it is Flush. Otherwise it walks over the table, a few keys of a shard at a time:
// keys that come meanwhile may stay or go. It returns the errors of Flush.
func (s *Session) FlushDatabase() error {
	alone := func() bool {
		n := s.e.DatabaseLen(s.db)
		for space := uint8(algo.Databases); s.db == 0 && space < algo.Spaces; space++ {
			n += s.e.DatabaseLen(space)
		}
		return n == s.e.Len()
	}
	if done, err := s.flush(alone); done || err != nil {
		return err
	}
	if s.tooManyToUndo() {
		return ErrUndoFull
	}
	for i := range s.e.table.Shards() {
		if err := s.flushShard(i, func(ent shard.Entry) bool {
			db := s.e.limits.get(ent.Meta()).Limit.DB
			return db == s.db || s.db == 0 && db >= algo.Databases
		}); err != nil {
			return err
		}
	}
	return nil
}

// flush locks all shards and calls wanted. If that returns true, it empties the shards
// and returns true. The old contents stay in memory until the flush is committed. A
// generation number in each entry would avoid that, but cost every look-up a comparison.
func (s *Session) flush(wanted func() bool) (done bool, err error) {
	if s.step.isolated {
		return s.flushHeld(wanted)
	}
	e := s.e
	gate := s.enterGate()
	e.table.Lock()
	sealed := e.sealed.Load()
	var unkept []*shard.Contents
	if done = !sealed && wanted(); done {
		unkept = s.detach()
	}
	e.table.Unlock()
	s.leaveGate(gate)
	if sealed {
		return false, ErrSealed
	}
	for _, c := range unkept {
		c.Release()
	}
	return done, nil
}

// detach empties all shards, which must be locked. The caller must release the returned
// contents.
func (s *Session) detach() (unkept []*shard.Contents) {
	unkept = s.e.table.Detach()
	if s.e.replica != nil {
		s.e.replica.flushed = true
	}
	return unkept
}

// flushHeld is flush in a step that holds the whole table. If the step may be rolled
// back, flushHeld deletes one key after the other, while the undo has room.
func (s *Session) flushHeld(wanted func() bool) (done bool, err error) {
	switch {
	case !s.step.whole:
		return false, ErrNotIsolated
	case s.e.sealed.Load():
		return false, ErrSealed
	case !wanted():
		return false, nil
	case !s.step.undo.on:
		for _, c := range s.detach() {
			c.Release()
		}
		return true, nil
	case s.tooManyToUndo():
		return false, ErrUndoFull
	}
	for i := range s.e.table.Shards() {
		if err := s.flushShard(i, func(shard.Entry) bool { return true }); err != nil {
			return false, err
		}
	}
	return true, nil
}

// undoneKeys bounds the keys of a flush that may be rolled back. The table is locked
// meanwhile, and each key takes a microsecond or two to delete and restore.
const undoneKeys = 10_000

func (s *Session) tooManyToUndo() bool { return s.step.undo.on && s.e.Len() > undoneKeys }

// flushShard deletes the wanted entries of a shard, a few before it lets others lock it.
func (s *Session) flushShard(i int, wanted func(shard.Entry) bool) (err error) {
	sh := s.e.table.Shard(i)
	remove := func(ent shard.Entry) bool {
		if err != nil || !wanted(ent) {
			return false
		}
		if s.step.undo.on {
			db := s.e.limits.get(ent.Meta()).Limit.DB
			err = s.save(s.e.hash(db, ent.Key()), ent.Key())
		}
		return err == nil
	}
	for cursor, done := uint32(0), false; !done && err == nil; {
		if !s.step.isolated {
			sh.Lock()
		}
		if s.e.sealed.Load() {
			err = ErrSealed
		} else {
			cursor, done = sh.Remove(cursor, remove)
		}
		if !s.step.isolated {
			sh.Unlock()
		}
	}
	return err
}

// discarded holds contents of shards that are no longer needed. One goroutine gives back
// their references to limits, and ends when none are left. That takes time in proportion
// to the keys, but commits and Apply do not wait for it.
type discarded struct {
	mu      sync.Mutex // guards the fields below
	waiting []*shard.Contents
	running bool
}

func (d *discarded) add(contents ...*shard.Contents) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.waiting = append(d.waiting, contents...)
	if len(d.waiting) > 0 && !d.running {
		d.running = true
		go d.run()
	}
}

func (d *discarded) run() {
	for {
		d.mu.Lock()
		contents := d.waiting
		d.waiting = nil
		d.running = len(contents) > 0
		d.mu.Unlock()
		if len(contents) == 0 {
			return
		}
		for _, c := range contents {
			c.Release()
		}
	}
}
