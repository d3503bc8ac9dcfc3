package raftlog

import "io"

// Machine is the replicated state.
//
// Permit, Apply, Committed, Lead, Depose, Cut, Snapshot and Restore are called one at a
// time, in the order in which they take effect. Now may be called at any time. None of
// them may call the group. The machine shares Config.Ledger with the group, which reports
// commits there.
type Machine interface {
	// Permit says which feature level the cluster has reached. It determines which
	// formats every machine may write from here on, in Cut and in snapshots. It is called
	// first, with the level of a new cluster, and only with levels of Config.Features.
	Permit(level uint32)

	// Apply applies a committed batch by replacement. Batches arrive in log order, each
	// with all its parts, once the last part is committed. A batch that this node has cut
	// in the term that it still serves is committed in the ledger instead. An error, such
	// as an unknown version, stops the node: nothing more is applied, and Config.Fatal
	// gets the error.
	Apply(b Batch) error

	// Committed reports that the oldest batch in flight is committed, with or without
	// effects. This node has cut it in the term that it serves. clock is the batch's
	// clock, as in Apply.
	Committed(clock int64)

	// Lead starts deciding: everything committed before this term has been applied. clock
	// is the cluster clock (unix ns) to continue from: the last applied clock, plus the
	// time that has passed on this node since.
	Lead(clock int64)

	// Depose stops deciding. The machine undoes what is dirty, and then the ledger's
	// flights, newest first. Its state then equals the applied log prefix. The group
	// drops the flights afterwards.
	Depose()

	// Cut takes one atomic cut of everything dirty, in parts of at most max bytes each.
	// It adds the cut to the ledger, with its undo. If nothing is dirty, it reports that
	// to the ledger and ok is false. The caller owns the parts.
	Cut(max int) (parts [][]byte, ok bool)

	// Now returns the cluster clock in unix ns, for the header of the entries of the last
	// cut.
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
