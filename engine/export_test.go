package engine

import (
	"fmt"
	"io"

	"github.com/headgate-io/headgate/engine/effects"
	"github.com/headgate-io/headgate/engine/reservation"
	"github.com/headgate-io/headgate/shard"
)

// The parts of the package that black-box tests see.

// Bounds that tests reach.
const (
	CollectAt     = collectAt
	RuleCacheSize = ruleCacheSize
	UndoneKeys    = undoneKeys
	ScratchRoom   = scratchRoom
	ScratchKeys   = scratchKeys
	LocalTogether = localTogether
	StaleKeys     = staleKeys
	ChargedNodes  = chargedNodes
	BackstopBytes = backstopBytes
	SnapshotMost  = snapshotMost
)

// Table is where the states are.
func (e *Engine) Table() *shard.Table { return e.table }

// PoolBytes is what counts for MaxBytes, of all engines.
func (e *Engine) PoolBytes() int64 { return e.shared.pool.Bytes() }

// States returns the live state as text, by key, and the system records.
func (e *Engine) States(now int64) map[string]string {
	out := make(map[string]string)
	for i := range e.table.Shards() {
		sh := e.table.Shard(i)
		sh.Lock()
		sh.Each(func(ent shard.Entry) {
			if !ent.Expired(now) {
				l := e.limits.get(ent.Meta()).Limit
				name := string(ent.Key())
				if l.DB != 0 {
					name = fmt.Sprintf("%d/%s", l.DB, name)
				}
				state := effects.AppendWire(nil, l.Algorithm, ent.State())
				out[name] = fmt.Sprintf("%+v until %d: %x", l, ent.Deadline(), state)
			}
		})
		sh.Unlock()
	}
	e.system.mu.Lock()
	defer e.system.mu.Unlock()
	for k, value := range e.system.records {
		out[fmt.Sprintf("system record %d of %s", k.Kind, k.Name)] = fmt.Sprintf("%x", value)
	}
	return out
}

// Passed is the time by which keys may be reaped.
func (e *Engine) Passed() int64 { return e.passed() }

// CollectLimits forgets unused limits, TidyLimits only where there are many.
func (e *Engine) CollectLimits() { e.collectLimits() }
func (e *Engine) TidyLimits()    { e.tidyLimits() }

// LimitsInUse counts the limits that records refer to; a session's cache holds one
// reference of its own.
func (e *Engine) LimitsInUse() int {
	e.limits.mu.Lock()
	defer e.limits.mu.Unlock()
	n := 0
	for _, it := range e.limits.byLimit {
		if it.refs.Load() > 0 {
			n++
		}
	}
	return n
}

// BoundLimits gives the engine a lower bound of limits.
func (e *Engine) BoundLimits(bound int) {
	e.limits.bound = bound
	e.limits.pace()
}

// BoundHolds gives the engine a lower bound of holds.
func (e *Engine) BoundHolds(most int) { e.reservations.most = int64(most) }

// HoldIndex is the index of the ends of holds.
func (e *Engine) HoldIndex() *reservation.Index { return &e.reservations.index }

// ID is that of the limit's records.
func (r Ready) ID() uint32 { return r.it.id }

// Pressure returns the pressure of a key.
func (s *Session) Pressure(now int64, key string) (p uint32, ok bool, err error) {
	ok, err = s.visit(now, []byte(key), func(ent shard.Entry) { _, p = s.e.pressure(ent, now) })
	return p, ok, err
}

// Undo returns the keys that the innermost step has saved, and how much is kept of all
// steps: 0 for nothing.
func (s *Session) Undo() (saved []string, kept int) {
	u := &s.step.undo
	for _, k := range u.saved[u.from:] {
		saved = append(saved, string(u.buf[k.key:k.state]))
	}
	return saved, len(u.saved) + len(u.buf)
}

// ChargeEvicted charges a held bucket whose record makes room for another record between
// plan and commit.
func (s *Session) ChargeEvicted(now int64, c Check, cost int64) error {
	sh := s.e.table.At(c.Hash)
	sh.Lock()
	defer sh.Unlock()
	st := checking{weighed: []weighed{{plan: plan{it: c.Limit.it, hash: c.Hash, key: c.Key}}}}
	x := &st.weighed[0]
	var err error
	if x.st, err = s.find(x, sh, now); err != nil {
		return err
	}
	if err := s.evaluate(&x.plan, x.st, now, cost, &x.opts); err != nil {
		return err
	}
	if err := st.reserve(s, x, now); err != nil {
		return err
	}
	sh.Delete(x.ent)
	st.moved = true
	return st.storeMarked(s, x, sh, now)
}

// Deposing reports whether Depose is about to undo, or does.
func (r *Replica) Deposing() bool {
	if !r.e.limits.collecting.TryLock() {
		return true
	}
	r.e.limits.collecting.Unlock()
	return false
}

// Undone returns how many shards Depose has taken back.
func (r *Replica) Undone() int { return int(r.undone.Load()) }

// LimitsInUndo returns how many limits the undo of uncommitted changes names.
func (r *Replica) LimitsInUndo() int { return len(r.limitsInUndo()) }

// CommittedOf returns what a snapshot has of a shard.
func (r *Replica) CommittedOf(i int, now int64) [][]byte {
	return r.committed(i, effects.FirstFormats, now)
}

// PersistEach is Persist that does something else after each shard.
func (s *Snapshot) PersistEach(w io.Writer, between func()) error {
	err := s.each(func(chunks [][]byte) error {
		for _, chunk := range chunks {
			if err := writeChunk(w, chunk); err != nil {
				return err
			}
		}
		between()
		return nil
	})
	if err != nil {
		return err
	}
	return writeChunk(w, nil)
}

// Overlay is the engine that decides in place of the table.
func (l *Local) Overlay() *Engine    { return l.overlay }
func (m *Empty) Overlay() *Engine    { return m.e }
func (b *Backstop) Overlay() *Engine { return b.overlay }
