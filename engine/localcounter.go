package engine

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"

	"github.com/headgate-io/headgate/engine/algo"
)

// localTogether is how many keys one call of Local.Count may use.
const localTogether = 64

// counted is a counter at one point in time. The zero value is an absent counter.
type counted struct {
	live            bool
	value, deadline int64
}

// CountStep is a step on counters of a database: see Local.Count. Session holds the keys
// of the step. It must touch no other key, and delete none.
type CountStep struct {
	Session *Session

	e       *Engine
	now     int64
	db      uint8
	keys    [][]byte
	was, is []counted
	initial []int64
}

// Set runs set, a command that gives a key a value, such as SET. An existing key is
// not overwritten: Set then returns ErrNotLocal and does not run set, except with
// onlyNew (NX). A value is no increment: when a leader is back, its value stays.
func (c *CountStep) Set(key []byte, onlyNew bool, set func()) error {
	i := slices.IndexFunc(c.keys, func(k []byte) bool { return bytes.Equal(k, key) })
	if live, err := c.Session.Exists(c.now, key); err != nil || live {
		if i < 0 || err != nil || !onlyNew {
			return ErrNotLocal
		}
		set()
		return nil
	}
	set()
	v, err := c.Session.Open(c.now, key, algo.Counter)
	if i < 0 || err != nil {
		return ErrNotLocal
	}
	defer v.Close()
	if n, integer := parseInteger(v.Bytes()); integer {
		c.initial[i] = n
	}
	return nil
}

// run runs a step on a session of e, and reports whether its keys were counters before it
// and are after it.
func (c *CountStep) run(fn func(*CountStep) error) (ok bool) {
	c.keys = slices.CompactFunc(slices.SortedFunc(slices.Values(c.keys), bytes.Compare), bytes.Equal)
	n := len(c.keys)
	c.was, c.is, c.initial = make([]counted, n), make([]counted, n), make([]int64, n)
	for i, key := range c.keys {
		c.was[i], _ = counterOf(c.e, c.now, c.db, key)
	}
	before := slices.Clone(c.was)
	err := c.holding(fn)
	ok = !errors.Is(err, ErrNotLocal) && !errors.Is(err, ErrFull)
	for i, key := range c.keys {
		var counter bool
		c.is[i], counter = counterOf(c.e, c.now, c.db, key)
		ok = ok && counter && (c.is[i].live || !before[i].live)
	}
	if !ok {
		for i, key := range c.keys {
			_ = c.Session.setState(c.now, key, before[i].state(c.db)) // no larger than it was
		}
	}
	return ok
}

func (c *CountStep) holding(fn func(*CountStep) error) error {
	step := c.Session.Isolate(c.now, c.keys, 0)
	defer step.Commit()
	return fn(c)
}

// Count runs a step on counters, for commands such as INCR and EXPIRE. The step works on
// this node's copies of keys of one database. Each key is copied from the replicated
// table at its first use. Count remembers how much each counter has grown, and when it
// expires: see Take.
//
// A counter has no limit that nodes could share. If an application uses counters as a
// limit, N nodes that are cut off from each other admit together at most N times the
// limit.
//
// The error is ErrNotLocal, and nothing has changed then. Its causes:
//
//   - a key is not an integer, before or after the step
//   - too many keys, or no room for them
//   - fn returned ErrNotLocal or ErrFull
func (l *Local) Count(now int64, db uint8, keys [][]byte, fn func(*CountStep) error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.overlay == nil || len(keys) > localTogether {
		return ErrNotLocal
	}
	l.overlay.tidyLimits() // the overlay has no Run
	l.session.Use(db)
	for _, key := range keys {
		if l.copy(now, key) != nil {
			return ErrNotLocal
		}
	}
	step := CountStep{Session: l.session, e: l.overlay, now: now, db: db, keys: keys}
	if !step.run(fn) {
		return ErrNotLocal
	}
	for i, key := range step.keys {
		l.count(now, spender{string(key), counterIn(db)}, step.was[i], step.is[i], step.initial[i])
	}
	return nil
}

// counterIn returns the limit that the counters of a database carry.
func counterIn(db uint8) algo.Limit { return algo.Limit{Algorithm: algo.Counter, DB: db} }

// counterOf reads a counter of an engine, even a sealed one. ok is false if the key is
// not a counter.
func counterOf(e *Engine, now int64, db uint8, key []byte) (c counted, ok bool) {
	hash := e.hash(db, key)
	sh := e.table.At(hash)
	sh.Lock()
	defer sh.Unlock()
	now = sh.Advance(now)
	ent, found := sh.Find(hash, key)
	switch {
	case !found || ent.Expired(now):
		return counted{}, true
	case e.limits.get(ent.Meta()).Limit.Algorithm != algo.Counter || ent.Words() != 1:
		return counted{}, false
	}
	return counted{true, int64(ent.Word(0)), ent.Deadline()}, true
}

// state returns the key state of this counter.
func (c counted) state(db uint8) keyState {
	if !c.live {
		return keyState{}
	}
	return keyState{true, counterIn(db), c.deadline, binary.LittleEndian.AppendUint64(nil, uint64(c.value))}
}

// copy copies a counter of the session's database to the overlay at its first use. mu
// must be held.
func (l *Local) copy(now int64, key []byte) error {
	db := l.session.db
	name := spender{string(key), counterIn(db)}
	if l.spent[name] == nil && len(l.order) >= localKeys {
		return ErrNotLocal
	}
	if _, known := l.copied[name]; known {
		return nil
	}
	if share, ok := counterOf(l.overlay, now, db, key); !ok || share.live || len(l.copied) >= localKeys {
		return ErrNotLocal
	}
	c, ok := counterOf(l.e, now, db, key)
	if !ok {
		return ErrNotLocal
	}
	if err := l.session.setState(now, key, c.state(db)); err != nil {
		return err
	}
	l.copied[name] = struct{}{}
	return nil
}

// count remembers the change of a counter. An absent counter had the value initial.
// mu must be held.
func (l *Local) count(now int64, name spender, was, is counted, initial int64) {
	if was == is {
		return
	}
	l.admitted++
	s := l.spending(name)
	switch {
	case !was.live: // its charges have expired
		s.units, s.initial, s.known, s.deadline = 0, initial, 0, is.deadline
		was.value = initial
	case s.deadline <= now: // its charges have expired, or it had none
		s.units, s.initial, s.known, s.deadline = 0, 0, was.deadline, is.deadline
	case is.deadline != was.deadline:
		s.deadline = is.deadline
	}
	if units, fits := addInt64(s.units, is.value-was.value); fits {
		s.units = units
	}
}

// chargeCounter adds to a counter what a node has counted without a leader, unless that
// has expired. It creates an absent counter, but not one that would never expire: the
// EXPIRE of that counter may have reached the leader before the counter did, without
// effect. The counter would then deny its client for good.
func (s *Session) chargeCounter(now int64, c *Charge) error {
	if c.Deadline <= now {
		return nil
	}
	v, err := s.Open(now, c.Key, algo.Counter)
	if err != nil {
		return err
	}
	defer v.Close()
	n, deadline := c.Initial, c.Deadline
	switch {
	case !v.Exists() && (c.Units == 0 && c.Initial == 0 || c.Deadline == NoExpiry):
		return nil
	case v.Exists():
		var ok bool
		if n, ok = parseInteger(v.Bytes()); !ok {
			return ErrNotInteger
		}
		deadline = c.expiry(v.Deadline())
	}
	sum, fits := addInt64(n, c.Units)
	if !fits {
		return ErrIncrDecrOverflow
	}
	if err := v.setInteger(sum); err != nil {
		return err
	}
	v.SetDeadline(deadline)
	return nil
}

// expiry returns when a counter expires; leaders is its deadline at the leader. If only
// one side has changed the deadline, that change counts. If both have set a time to live,
// or made the counter, the later one counts: it may be too long, but never too short. A
// counter that users of the leader have made persistent stays so.
func (c *Charge) expiry(leaders int64) int64 {
	switch {
	case c.Deadline == c.Known, c.Deadline == NoExpiry:
		return leaders
	case leaders == c.Known:
		return c.Deadline
	}
	return max(leaders, c.Deadline)
}

// Count runs a step on counters, such as INCR and EXPIRE, as if their keys were absent,
// and forgets its changes. It returns the errors of Local.Count.
func (m *Empty) Count(now int64, db uint8, keys [][]byte, fn func(*CountStep) error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(keys) > localTogether {
		return ErrNotLocal
	}
	for _, key := range keys {
		if _, ok := counterOf(m.of, now, db, key); !ok {
			return ErrNotLocal
		}
	}
	m.e.tidyLimits()
	m.session.Use(db)
	step := CountStep{Session: m.session, e: m.e, now: now, db: db, keys: keys}
	if !step.run(fn) {
		return ErrNotLocal
	}
	for _, key := range keys {
		_, _ = m.session.Delete(now, key)
	}
	return nil
}
