package raftlog

import "io"

// Machine is the replicated state.
//
// Permit, Apply, Committed, Lead, Depose, Cut, Snapshot and Restore are called one
// at a time, in exactly the order in which they take effect; Now may be called at
// any time. The machine must not call the group back from any of them. It shares
// Config.Ledger with the group, which reports commits there.
type Machine interface {
	// Permit says which feature level the cluster has reached, and so which
	// formats every machine may write from here on, in Cut and in snapshots. It is
	// called first, with the level of a new cluster, and only with levels of
	// Config.Features.
	Permit(level uint32)

	// Apply applies a committed batch by replacement. Batches arrive in log
	// order; the parts of a batch arrive together, when the last has been
	// committed. It is never called for a batch this node cut in the term it
	// still serves: those are committed in the ledger. An error (such as an
	// unknown payload version) stops the node: nothing is applied any more and
	// Config.Fatal is called with it.
	Apply(b Batch) error

	// Committed reports that the oldest batch in flight is committed, effects or
	// none. This node cut it in the term that it serves. clock is the batch's
	// clock, as Apply would get it.
	Committed(clock int64)

	// Lead starts deciding: everything committed before this term has been
	// applied. clock is the cluster clock (unix ns) to continue from: the last
	// applied clock plus the time that has passed since on this node.
	Lead(clock int64)

	// Depose stops deciding. The machine undoes whatever is dirty, and then the
	// ledger's flights, newest first, so that its state equals the applied log
	// prefix again. The group forgets the flights afterwards.
	Depose()

	// Cut takes one atomic cut of everything dirty, in parts of at most max bytes
	// each. It adds it to the ledger with the data that undoes it. ok is false
	// when nothing is dirty; Cut reports that to the ledger too. The parts belong
	// to the group from here on.
	Cut(max int) (parts [][]byte, ok bool)

	// Now returns the cluster clock in unix ns, for the header of an entry that
	// is made of the last cut.
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
	Number   uint64   // number of the batch within its term, from 1
	Clock    int64    // cluster clock (unix ns) at the cut; never decreases from batch to batch
	Payloads [][]byte // parts in order; empty for a clock tick
}
