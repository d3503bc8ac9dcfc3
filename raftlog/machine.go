package raftlog

import "io"

// Machine is the replicated state.
//
// Permit, Apply, Committed, Lead, Depose, Cut, Snapshot and Restore are called
// one at a time, in exactly the order in which they take effect; Now may be
// called at any time. The machine must not call the group back from any of
// them.
type Machine interface {
	// Permit says which feature level the cluster has reached: what the machine
	// may write from here on, in Cut and in snapshots, and what others may. It
	// is called before everything else, with the level of a new cluster, and
	// never with one that Config.Features does not have.
	Permit(level uint32)

	// Apply applies a committed batch by replacement. Batches arrive in log
	// order; the parts of a batch arrive together, when the last has been
	// committed. It is never called for a batch this node cut in the term it
	// still serves: those get Committed. An error (such as an unknown payload
	// version) stops the node: nothing is applied any more and Config.Fatal is
	// called with it.
	Apply(b Batch) error

	// Committed reports that the serving leader's own batch seq, and all before
	// it, is committed.
	Committed(seq uint64)

	// Lead starts deciding in the given term: everything committed before it
	// has been applied. clock is the cluster clock (unix ns) to continue from:
	// the last applied clock plus the time that has passed since on this node.
	Lead(term uint64, clock int64)

	// Depose stops deciding. The machine undoes, newest first, every batch it
	// cut that is not yet Committed, and whatever is dirty beyond them, so that
	// its state equals the applied log prefix again.
	Depose(term uint64)

	// Cut takes one atomic cut of everything dirty as batch seq, in parts of at
	// most max bytes each, and keeps what it needs to undo it. ok is false when
	// nothing is dirty: seq has then not been used and is offered again.
	// Batches are numbered from 1 in every term served. The parts belong to the
	// group from here on.
	Cut(seq uint64, max int) (parts [][]byte, ok bool)

	// Now returns the cluster clock in unix ns, for the header of an entry.
	Now() int64

	// Snapshot captures the committed state. It must return at once; writing
	// happens in Snapshot.Persist.
	Snapshot() (Snapshot, error)

	// Restore replaces the whole state by a snapshot's. clock is the last
	// applied cluster clock.
	Restore(r io.Reader, clock int64) error
}

// Snapshot is a point in time of a Machine's committed state.
type Snapshot interface {
	// Persist writes the state. It runs concurrently with Apply and with
	// decisions.
	Persist(w io.Writer) error

	// Release is called once, after Persist or instead of it.
	Release()
}

// Batch is one committed cut.
type Batch struct {
	Index    uint64   // log index of the batch's last part
	Term     uint64   // term in which it was decided and committed
	Seq      uint64   // number of the batch within its term, from 1
	Clock    int64    // cluster clock (unix ns) at the cut; never decreases from batch to batch
	Payloads [][]byte // parts in order; empty for a clock tick
}
