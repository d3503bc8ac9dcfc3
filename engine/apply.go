package engine

import (
	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/engine/effects"
	"github.com/headgate-io/headgate/shard"
)

// Apply replaces the keys of a committed batch. clock is the cluster clock when the batch
// was cut. Keys that have expired by then are applied too, and reaped later. Errors:
// ErrEffects, ErrBase.
func (r *Replica) Apply(payloads [][]byte, clock int64) error {
	r.e.clock.Set(clock)
	r.give(clock)
	for _, p := range payloads {
		if err := r.apply(p, clock); err != nil {
			return err
		}
	}
	r.applier.Tidy()
	r.e.table.Pass(clock)
	r.e.publish(r.takeApplied(), false)
	return nil
}

// Effects are applied aheadKeys at a time, or fewer if their keys and states exceed
// aheadBytes. If the table is too large for the caches, their entries are prefetched
// first, so that the cache misses overlap.
const (
	aheadKeys  = 32
	aheadBytes = 64 << 10
)

// applier is the state that apply keeps between payloads.
type applier struct {
	reader effects.Reader
	dict   []*interned // of the payload
	ahead  []incoming
	hashes []uint64 // of the keys of ahead
	effects.Rebaser
}

// incoming is an effect about to be applied.
type incoming struct {
	effects.Effect
	sh *shard.Shard
}

// apply applies one payload. It interns the payload's limits before it releases the old
// limits of its keys, and may exceed the bound of sessions.
func (r *Replica) apply(payload []byte, now int64) error {
	a := &r.applier
	defer func() {
		for _, it := range a.dict {
			it.refs.Add(-1)
		}
		a.dict = a.dict[:0]
	}()
	if r.e.limits.crowded() {
		r.e.collectLimits()
	}
	if err := a.reader.Open(payload); err != nil {
		return err
	}
	cold := r.e.cold()
	for a.reader.More() {
		if err := r.look(); err != nil {
			return err
		}
		if cold {
			r.e.table.Prefetch(a.hashes)
		}
		for i := range a.ahead {
			in := &a.ahead[i]
			if in.Changed {
				if err := r.change(in, a.hashes[i], now); err != nil {
					return err
				}
				continue
			}
			in.sh.Lock()
			r.e.restore(in.sh, a.hashes[i], in.Image, in.Limit >= 0, now)
			in.sh.Unlock()
		}
	}
	return nil
}

// takeApplied returns the records of policies that were applied since the last call.
func (r *Replica) takeApplied() []PolicyRecord {
	applied := r.applied
	r.applied = nil
	return applied
}

// look reads the next effects of the payload.
func (r *Replica) look() error {
	a := &r.applier
	if a.ahead == nil {
		a.ahead = make([]incoming, 0, aheadKeys)
	}
	a.ahead, a.hashes = a.ahead[:0], a.hashes[:0]
	a.reader.Recycle()
	for n := 0; n < aheadKeys && a.reader.Held() < aheadBytes && a.reader.More(); n = len(a.ahead) {
		in := &a.ahead[:n+1][n]
		ok, err := a.reader.Next(&in.Effect, (*incomings)(r))
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		if in.Limit >= 0 {
			in.Image.Meta = a.dict[in.Limit].id
		}
		hash := r.e.hash(in.Image.Space, in.Image.Key)
		in.sh = r.e.table.At(hash)
		a.ahead, a.hashes = a.ahead[:n+1], append(a.hashes, hash)
	}
	return nil
}

// incomings is the view of a Replica that receives the effects of a payload.
type incomings Replica

// addLimit interns a limit of the payload being applied.
func (r *incomings) AddLimit(l algo.Limit) {
	r.applier.dict = append(r.applier.dict, r.e.limits.acquireReplicated(l))
}

func (r *incomings) SetSystem(k effects.SystemKey, value []byte) {
	r.e.system.apply(k, value)
	if k.Kind == effects.SystemPolicy {
		r.applied = append(r.applied, PolicyRecord{k.Name, value})
	}
}

func (r *incomings) Included(clock int64) { r.snapshotEnd = clock }

// flush forgets all keys.
func (r *incomings) Flush() {
	r.e.table.Lock()
	unkept := r.e.table.Detach()
	r.e.table.Unlock()
	r.discarded.add(unkept...)
}
