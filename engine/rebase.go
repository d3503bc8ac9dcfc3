package engine

import (
	"errors"
	"fmt"

	"github.com/headgate-io/headgate/engine/effects"
	"github.com/headgate-io/headgate/shard"
)

// ErrBase is returned by Apply for a delta from a state that this node does not have. The
// key has not changed, and no more may be applied. A defect of memory, disk or program
// has made the table differ from the log. If the defect was in memory, a restart from the
// last snapshot heals it. If it is in the snapshot, the leader's must replace that.
var ErrBase = errors.New("this node's table differs from the log; start the node again, and if it stops again, wipe its data")

// cutLarge adds a state of leastDelta or more, now or with its shard unlocked. previous has no
// state if the key was absent at the cut before.
func (r *Replica) cutLarge(enc *effects.Encoder, previous, im shard.Image) {
	if !r.aside.put(r.e.limits, previous, im) {
		r.cutChange(enc, previous, im)
	}
}

// cutChange adds the state of an entry that has changed since the last cut. It adds a
// delta if that is worthwhile and every node has the old state.
func (r *Replica) cutChange(enc *effects.Encoder, was, im shard.Image) {
	var d *effects.Delta
	if len(was.State) >= effects.LeastDelta && was.Deadline > r.given.Load() {
		d = r.changer.Between(r.e.limits, &was, &im)
	}
	enc.Add(im, d)
}

// give records that a batch may have this clock or an earlier one. By the next batch, a
// node may have forgotten keys that have expired by then.
func (r *Replica) give(clock int64) {
	for {
		given := r.given.Load()
		if given >= clock || r.given.CompareAndSwap(given, clock) {
			return
		}
	}
}

// rebase turns an effect that is a delta into a state. The lock of the key's shard must
// be held. The state is valid until the next call.
func (r *Replica) rebase(in *incoming, hash uint64) (err error) {
	a := r.applier.reader.Kind(in.Limit)
	ent, found := in.sh.Find(hash, in.Image.Key)
	if !found || r.e.limits.get(ent.Meta()).Limit.Algorithm != a {
		return effects.ErrOtherBase
	}
	in.Image.State, err = r.applier.Rebase(a, ent.State(), &in.Delta)
	return err
}

// change applies an effect that is a delta, of a batch with the clock now.
func (r *Replica) change(in *incoming, hash uint64, now int64) error {
	in.sh.Lock()
	defer in.sh.Unlock()
	switch err := r.rebase(in, hash); {
	case errors.Is(err, effects.ErrOtherBase) && now <= r.snapshotEnd:
		return nil // the snapshot has it already
	case errors.Is(err, effects.ErrOtherBase):
		return fmt.Errorf("%w: key %.64q of database %d differs from the base of a delta", ErrBase, in.Image.Key, in.Image.Space)
	case err != nil:
		return err
	}
	r.e.restore(in.sh, hash, in.Image, true, now)
	return nil
}
