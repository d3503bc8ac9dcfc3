package effects

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"

	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/engine/packed"
	"github.com/headgate-io/headgate/shard"
)

const (
	// LeastDelta is the size of a state, in bytes, from which a delta is worthwhile.
	LeastDelta = 256
	// deltaShare bounds a delta to this fraction (1/deltaShare) of the new state.
	deltaShare = 3
	// mostDelta bounds a delta: the longest state, and its length.
	mostDelta = 8*shard.MaxWords/deltaShare + stepBytes
	// BaseSize is the length of the name of a delta's base: the first bytes of its
	// SHA-256. With shorter names, clients, who choose states, could make names collide.
	BaseSize = 16
)

// Delta is a large state, given as the difference to the state before.
type Delta struct {
	Base       []byte // the name of the state before
	Difference []byte // of their wire forms
}

// appendWire appends a state in the form that is the same on all nodes.
func (k *codec) appendWire(b, state []byte) []byte {
	b = slices.Grow(b, len(state)) // no wire form is longer
	if k.packed != 0 {
		return packed.AppendWire(b, Collection(state))
	}
	return append(b, state...)
}

// fromWire appends this node's state for a wire form, which may be any bytes. ok is false
// if they are invalid.
func (k *codec) fromWire(b, wire []byte) (state []byte, ok bool) {
	if k.packed != 0 {
		return appendCollection(b, k.packed, wire)
	}
	return append(b, wire...), len(wire)%8 == 0
}

// mostWire bounds the bytes of a wire form.
func (k *codec) mostWire() int {
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
	return append(b, h.Sum(sum[:0])[:BaseSize]...)
}

// Changer finds deltas. It keeps its memory, some 10 MB for the largest states, while
// every cut uses it.
type Changer struct {
	differ differ
	delta  Delta
	used   bool // since the last call of Tidy
}

// Tidy ends a cut.
func (c *Changer) Tidy() {
	if !c.used {
		*c = Changer{}
	}
	c.used = false
}

// Between returns the delta from one entry's state to another's, valid until the next
// call. It returns nil if no delta is much shorter than the state.
func (c *Changer) Between(limits Limits, was, im *shard.Image) *Delta {
	a := limits.LimitOf(im.Meta).Algorithm
	k := codecOf(a)
	if len(im.State) < LeastDelta || k.packed == 0 && !k.large || limits.LimitOf(was.Meta).Algorithm != a {
		return nil
	}
	d := &c.differ
	c.used = true
	d.old, d.new = k.appendWire(d.old[:0], was.State), k.appendWire(d.new[:0], im.State)
	d.mark(k)
	var ok bool
	if c.delta.Difference, ok = d.between(c.delta.Difference[:0], len(d.new)/deltaShare); !ok {
		return nil
	}
	c.delta.Base = appendBase(c.delta.Base[:0], a, d.old)
	return &c.delta
}

// Rebaser makes states from deltas. It keeps its memory, some 6 MB for the largest
// states, while every batch uses it.
type Rebaser struct {
	old, new, base, state []byte
	used                  bool // since the last call of Tidy
}

// Tidy ends a batch.
func (w *Rebaser) Tidy() {
	if !w.used {
		*w = Rebaser{}
	}
	w.used = false
}

// ErrOtherBase is returned if the state of a key is not the base of the delta.
var ErrOtherBase = errors.New("the state is not the base of the delta")

// Rebase applies a delta to state, which is of kind a. The result is valid until the next
// call. Errors: ErrOtherBase, ErrEffects.
func (w *Rebaser) Rebase(a algo.Algorithm, state []byte, d *Delta) (changed []byte, err error) {
	k := codecOf(a)
	w.used = true
	w.old = k.appendWire(w.old[:0], state)
	if w.base = appendBase(w.base[:0], a, w.old); string(w.base) != string(d.Base) {
		return nil, ErrOtherBase
	}
	var ok bool
	if w.new, ok = appendChanged(w.new[:0], w.old, d.Difference, k.mostWire()); ok {
		w.state, ok = k.fromWire(w.state[:0], w.new)
	}
	if !ok {
		return nil, fmt.Errorf("%w: bad delta", ErrEffects)
	}
	return w.state, nil
}
