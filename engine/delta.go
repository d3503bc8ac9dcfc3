package engine

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"

	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/engine/packed"
	"github.com/headgate-io/headgate/shard"
)

// ErrBase is returned by Apply for a delta from a state that this node does not
// have. Nothing of the key has changed, and nothing more may be applied: by a
// defect of memory, disk or program the table is not what the log makes of it.
// What was in memory heals with the next start, which goes on from the last
// snapshot; a snapshot that has it too has to be replaced by the leader's.
var ErrBase = errors.New("this node's table differs from the log; start it again, and if that does not help, wipe this node's data")

const (
	// leastDelta is how many bytes a state has from which a delta is worth it.
	leastDelta = 256
	// deltaShare is the part of the new state that a delta may take.
	deltaShare = 3
	// mostDelta bounds a delta: the longest state, and its length.
	mostDelta = 8*shard.MaxWords/deltaShare + stepBytes
	// baseSize is how many bytes name the state that a delta is from: the first
	// of its SHA-256. Clients choose states, and could make fewer collide.
	baseSize = 16
)

// delta is a large state as the difference to the one before.
type delta struct {
	base       []byte // the name of that one
	difference []byte // of their wire forms
}

// appendWire appends a state as it is on all nodes.
func (k *traits) appendWire(b, state []byte) []byte {
	b = slices.Grow(b, len(state)) // no wire form is longer
	if k.packed != 0 {
		return packed.AppendWire(b, collection(state))
	}
	return append(b, state...)
}

// fromWire appends this node's state for a wire form, which may be anything: ok
// is false for what is none.
func (k *traits) fromWire(b, wire []byte) (state []byte, ok bool) {
	if k.packed != 0 {
		return appendCollection(b, k.packed, wire)
	}
	return append(b, wire...), len(wire)%8 == 0
}

// mostWire is how many bytes a wire form may have.
func (k *traits) mostWire() int {
	if k.packed != 0 {
		return packed.MaxBytes
	}
	return 8 * shard.MaxWords
}

// appendBase appends the name of a state.
func appendBase(b []byte, a algo.Algorithm, wire []byte) []byte {
	h := sha256.New()
	h.Write([]byte{byte(a)})
	h.Write(wire)
	var sum [sha256.Size]byte
	return append(b, h.Sum(sum[:0])[:baseSize]...)
}

// changer finds deltas. Its memory, some 10 MB for the largest states, is kept
// as long as each cut has a use for it.
type changer struct {
	differ differ
	delta  delta
	used   bool // since the last call of tidy
}

// tidy ends a cut.
func (c *changer) tidy() {
	if !c.used {
		*c = changer{}
	}
	c.used = false
}

// between returns the delta from one entry's state to another's, valid until the
// next call; nil if there is none that is much shorter.
func (c *changer) between(limits *interner, was, im *shard.Image) *delta {
	a := limits.get(im.Meta).Limit.Algorithm
	k := traitsOf(a)
	if len(im.State) < leastDelta || k.packed == 0 && !k.large || limits.get(was.Meta).Limit.Algorithm != a {
		return nil
	}
	d := &c.differ
	c.used = true
	d.old, d.new = k.appendWire(d.old[:0], was.State), k.appendWire(d.new[:0], im.State)
	d.mark(k)
	var ok bool
	if c.delta.difference, ok = d.between(c.delta.difference[:0], len(d.new)/deltaShare); !ok {
		return nil
	}
	c.delta.base = appendBase(c.delta.base[:0], a, d.old)
	return &c.delta
}

// cutLarge adds a state of leastDelta or more, now or with its shard unlocked. was
// has no state if the key was absent at the cut before.
func (r *Replica) cutLarge(enc *encoder, was, im shard.Image) {
	if !r.aside.put(enc.limits, was, im) {
		r.cutChange(enc, was, im)
	}
}

// cutChange adds the state of an entry that was another at the cut before: as a
// delta, if every node has what it was, and it is worth
// it.
func (r *Replica) cutChange(enc *encoder, was, im shard.Image) {
	var d *delta
	if len(was.State) >= leastDelta && was.Deadline > r.given.Load() {
		d = r.changer.between(enc.limits, &was, &im)
	}
	enc.add(im, d)
}

// give notes that a batch may have this clock, or an earlier one. What has
// expired by it a node may have forgotten by the time of the next batch.
func (r *Replica) give(clock int64) {
	for {
		given := r.given.Load()
		if given >= clock || r.given.CompareAndSwap(given, clock) {
			return
		}
	}
}

// rebaser makes states of deltas. Its memory, some 6 MB for the largest states,
// is kept as long as each batch has a use for it.
type rebaser struct {
	old, new, base, state []byte
	used                  bool // since the last call of tidy
}

// tidy ends a batch.
func (w *rebaser) tidy() {
	if !w.used {
		*w = rebaser{}
	}
	w.used = false
}

// errOtherBase is that the state of a key is not the one that a delta is from.
var errOtherBase = errors.New("the base is another")

// rebase makes a state of an effect that is a delta. The lock of the key's shard
// must be held. The state is valid until the next call.
func (r *Replica) rebase(in *incoming, hash uint64) error {
	a := r.applier.reader.known[in.limit].kind
	ent, found := in.sh.Find(hash, in.image.Key)
	if !found || r.e.limits.get(ent.Meta()).Limit.Algorithm != a {
		return errOtherBase
	}
	w, k := &r.applier.rebaser, traitsOf(a)
	w.used = true
	w.old = k.appendWire(w.old[:0], ent.State())
	if w.base = appendBase(w.base[:0], a, w.old); string(w.base) != string(in.delta.base) {
		return errOtherBase
	}
	var ok bool
	if w.new, ok = appendChanged(w.new[:0], w.old, in.delta.difference, k.mostWire()); ok {
		w.state, ok = k.fromWire(w.state[:0], w.new)
	}
	if !ok {
		return fmt.Errorf("%w: bad delta", ErrEffects)
	}
	in.image.State = w.state
	return nil
}

// change applies an effect that is a delta, of a batch with the clock now.
func (r *Replica) change(in *incoming, hash uint64, now int64) error {
	in.sh.Lock()
	defer in.sh.Unlock()
	switch err := r.rebase(in, hash); {
	case errors.Is(err, errOtherBase) && now <= r.snapshotEnd:
		return nil // the snapshot has it already
	case errors.Is(err, errOtherBase):
		return fmt.Errorf("%w: key %.64q of database %d is not what a delta is from", ErrBase, in.image.Key, in.image.Space)
	case err != nil:
		return err
	}
	r.e.restore(in.sh, hash, in.image, true, now)
	return nil
}
