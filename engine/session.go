package engine

import (
	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/shard"
)

// ruleCacheSize is how many interned limits a session remembers, direct
// mapped. Services use a handful of limits; 64 leaves few collisions.
const ruleCacheSize = 64

// Session makes decisions for one event loop or one connection's goroutine. It is not
// safe for concurrent use; any number of sessions work on one Engine.
//
// A session caches interned limits. So a decision touches nothing that threads share,
// except the shard of its key.
type Session struct {
	// The fields that every decision reads come first, in as few cache lines as possible.
	e      *Engine
	last   *interned // the result of the last call of rule, or nil
	space  uint64    // shard.SpaceMask of db
	db     uint8     // see Use
	top    sampler
	step   stepState
	rules  [ruleCacheSize]*interned
	hashes []uint64 // scratch of Warm
	value  Value    // the value that Open visits
	// chain is the scratch space of DecideAll. It is made at the first call of DecideAll,
	// because there may be thousands of sessions and most of them never need it.
	chain    *chain
	checking *checking // scratch of Check, made at its first call
	keys     keySet    // scratch of operations on several keys
	holding  *records  // scratch of reservations, made at the first call
	settling *settling // scratch of Settle, made at its first call
	leases   *Leases   // made at the first call of Leases
}

// NewSession returns a session. Close gives back what it caches.
func (e *Engine) NewSession() *Session {
	return &Session{e: e, top: e.shared.tops.sampler()}
}

// Use makes db, below Databases, the database of the session, which begins with database
// 0. It may be called in a step, but not during a visit: see Open.
func (s *Session) Use(db uint8) { s.db, s.space = db, shard.SpaceMask(db) }

// Database returns the database that the session works on.
func (s *Session) Database() uint8 { return s.db }

// hash returns the hash of key in the session's database.
func (s *Session) hash(key []byte) uint64 { return s.e.table.Hash(key) ^ s.space }

// Engine returns the engine that the session works on.
func (s *Session) Engine() *Engine { return s.e }

// Close gives back the session's references to limits.
func (s *Session) Close() {
	for i, it := range s.rules {
		if it != nil {
			it.refs.Add(-1)
			s.rules[i] = nil
		}
	}
	s.last = nil
}

// rule returns the interned form of l. The session's cache holds a reference, so the
// result is valid until the next call of rule.
func (s *Session) rule(l algo.Limit) (*interned, error) {
	if it := s.last; it != nil && it.Limit == l {
		return it, nil
	}
	i := cacheIndex(&l)
	if it := s.rules[i]; it != nil && it.Limit == l {
		s.last = it
		return it, nil
	}
	if err := s.e.validate(l); err != nil {
		return nil, err
	}
	it, err := s.e.limits.acquire(l)
	if err != nil {
		return nil, err
	}
	if old := s.rules[i]; old != nil {
		old.refs.Add(-1)
	}
	s.rules[i], s.last = it, it
	return it, nil
}

// cacheIndex spreads limits over the session cache; any function does.
func cacheIndex(l *algo.Limit) uint64 {
	h := uint64(l.Limit)*0x9e3779b97f4a7c15 ^ uint64(l.Period)*0xc2b2ae3d27d4eb4f ^
		uint64(l.Burst)*0x165667b19e3779f9 ^ uint64(l.Algorithm)<<40 ^ uint64(l.DB)<<48
	if l.Leased { // a decision on a leased key needs both forms
		h ^= 1 << 56
	}
	return (h ^ h>>29) * 0x9e3779b97f4a7c15 >> 58
}

// Decide checks whether key may take cost units of l at engine time now (ns). It uses
// the session's database and ignores l.DB. If the call passes and is not a peek, it is
// charged while the shard stays locked. Calls on one key are decided in the order of
// time: see shard.Shard.Advance. A cost of 0 is a peek, and a negative cost is a refund.
//
// Errors: an invalid limit, ErrWrongType if key holds another algorithm's state,
// ErrFull, ErrOverflow, ErrLogFull, ErrTooManyLimits, ErrSealed. After an error nothing
// has changed.
func (s *Session) Decide(now int64, key []byte, l algo.Limit, cost int64, o *algo.Options) (algo.Decision, error) {
	l.DB = s.db
	it, err := s.rule(l)
	if err != nil {
		return algo.Decision{}, err
	}
	if len(key) > shard.MaxKeyLen {
		return algo.Decision{}, ErrKeyTooLong
	}
	hash := s.hash(key)
	sh, err := s.lock(hash, key)
	if err != nil {
		return algo.Decision{}, err
	}
	now = sh.Advance(now)
	var p plan
	err = s.plan(&p, sh, hash, key, it, now, cost, o)
	if err == nil && p.write {
		err = s.commit(&p, sh, now)
	}
	s.unlock(sh)
	if err != nil {
		return algo.Decision{}, err
	}
	s.top.observe(now, key, hash, p.d.OK)
	return p.d, nil
}

// plan is a decision that is not yet written: the algorithm's output, and where it goes.
// It is valid while the shard is locked and nothing is inserted.
type plan struct {
	it    *interned
	hash  uint64
	key   []byte
	ent   shard.Entry
	found bool
	live  bool // found, and not expired
	write bool
	// created is set if a chain made the record before it was charged.
	created bool
	// leased is set if units of the limit are out, as the record beside the counter says.
	leased bool
	d      algo.Decision
	// If write is set, next is the new state and words its number of words, 0 if nothing
	// is left. For a log, next has only the deadline.
	next  algo.State
	words int
	// ring is a log, converted to the limit, which keeps its share after an edit. It is
	// nil if the record needs no conversion.
	ring []byte
}

// plan computes the decision for key without changing anything. The shard's lock must be
// held.
func (s *Session) plan(p *plan, sh *shard.Shard, hash uint64, key []byte, it *interned, now, cost int64, o *algo.Options) (err error) {
	p.it, p.hash, p.key = it, hash, key
	p.ent, p.found = sh.Find(hash, key)
	live := p.found && !p.ent.Expired(now)
	p.live = live
	var st algo.State
	if live {
		if p.ent.Meta() == it.id {
			st = load(p.ent)
		} else if st, err = s.adopted(p, s.e.limits.get(p.ent.Meta()), sh, now); err != nil {
			return err
		} else if p.leased && cost > 0 && (o == nil || !o.Peek) {
			s.e.demand.Asked(s.e.table.Index(hash), hash, cost, now)
		}
	}
	return s.evaluate(p, st, now, cost, o)
}

// adopted converts the state of p's entry, which is live and was written under old, to the
// limit of p.
func (s *Session) adopted(p *plan, old *interned, sh *shard.Shard, now int64) (algo.State, error) {
	if old.Limit.Algorithm != p.it.Limit.Algorithm {
		return algo.State{}, ErrWrongType
	}
	if old.Limit.Leased {
		out := s.Leases().outstanding(sh, p.hash, p.key, now)
		return p.unlease(&out, old, now), nil
	}
	return p.it.Adopt(&old.Rule, load(p.ent), now), nil
}

// evaluate decides on the found state, converted to the limit of p, or on the zero state
// if there is none.
func (s *Session) evaluate(p *plan, st algo.State, now, cost int64, o *algo.Options) (err error) {
	// Set each field: a literal would be copied, and the copy waits for the stores before
	// it.
	var in algo.Input
	in.State = st
	if p.it.HasList {
		in.List = p.list()
	}
	in.Now, in.Cost, in.Options, in.MaxEntries = now, cost, o, s.e.logMaxEntries
	p.next, p.words, p.write, err = p.it.Decide(&in, &p.d)
	if err != nil && err == algo.ErrUndecided {
		err = ErrWrongType
	}
	return err
}

// list returns the list of a live entry, converted to the limit of p, or nil for a
// missing or expired entry.
func (p *plan) list() []byte {
	switch {
	case p.ring != nil:
		return p.ring
	case !p.live:
		return nil
	}
	return p.ent.State()
}

// commit writes p. The shard's lock must be held, and p.ent must still be what Find
// returns for the key.
func (s *Session) commit(p *plan, sh *shard.Shard, now int64) error {
	if p.leased {
		return s.commitLeased(p, sh, now)
	}
	if p.words == 0 {
		// A refund has refilled the limit: nothing needs to be kept.
		if p.found {
			sh.Delete(p.ent)
		}
		return nil
	}
	if err := s.place(p, sh, p.words, p.next.Deadline, now); err != nil {
		return err
	}
	if p.it.HasList { // next has its deadline alone
		if !p.live {
			clear(p.ent.State())
		}
		p.it.Apply(p.ent.State(), now, p.d.Allowed)
		return nil
	}
	p.storeWords()
	return nil
}

// storeWords writes a state that is not a list to its record.
func (p *plan) storeWords() {
	p.ent.SetWord(0, p.next.First)
	if p.words == 2 {
		p.ent.SetWord(1, p.next.Second)
	}
}

// resize changes the size of p's record. If that fails, the record keeps its size. This
// is harmless if the new size is smaller, unless the kind is sized.
func (p *plan) resize(sh *shard.Shard, words int, now int64) error {
	sh.Touch(p.ent)
	if p.live {
		p.it.Compact(p.ent.State(), now)
	}
	ent, err := sh.Resize(p.ent, p.hash, words, now)
	if err == nil {
		p.ent = ent
	}
	return err
}

// place makes p.ent a record of the given size, limit and deadline; it creates or resizes
// it as needed. On error nothing has changed.
func (s *Session) place(p *plan, sh *shard.Shard, words int, deadline, now int64) error {
	if !p.found {
		ent, err := sh.Insert(p.hash, p.key, p.it.id, words, deadline, now)
		if err != nil {
			return err
		}
		p.it.refer(sh)
		p.ent, p.found = ent, true
		return nil
	}
	if have := p.ent.Words(); have == words {
		sh.Touch(p.ent)
	} else if err := p.resize(sh, words, now); err != nil && (have < words || traitsOf(p.it.Limit.Algorithm).sized) {
		return err
	}
	if old := p.ent.Meta(); old != p.it.id {
		p.it.refs.Add(1)
		p.ent.SetMeta(p.it.id)
		s.e.limits.release(old)
	}
	p.ent.SetDeadline(deadline)
	return nil
}
