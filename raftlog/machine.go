package raftlog

import "io"

// Machine is the replicated state.
//
// The group calls Permit, Apply, Committed, Lead, Depose, Cut, Snapshot and Restore one at
// a time, in the order in which they take effect. It may call Now at any time. None of the
// methods may call the group. The machine shares Config.Ledger with the group, which
// reports commits there.
type Machine interface {
	// Permit says which feature level the cluster has reached. The level determines in
	// which formats every machine may write from here on, in Cut and in snapshots. Permit
	// is called before all other methods, with the level of a new cluster, and only with
	// levels of Config.Features.
	Permit(level uint32)

	// Apply applies a committed batch, which replaces the states of its keys. Batches
	// arrive in log order. Each has all its parts, and arrives when its last part is
	// committed. A batch that this node has cut in the present term is committed in the
	// ledger instead. If Apply returns an error, for example for an unknown version, the
	// node stops: nothing more is applied, and Config.Fatal gets the error.
	Apply(b Batch) error

	// Committed reports that the oldest batch in flight is committed, with or without
	// effects. This node has cut the batch in the present term. clock is the batch's clock,
	// as in Apply.
	Committed(clock int64)

	// Lead makes the machine decide. Everything committed before this term has been
	// applied. clock is the cluster clock, in Unix ns, from which the machine continues:
	// the last applied clock, and the time that has passed on this node since.
	Lead(clock int64)

	// Depose makes the machine stop deciding. The machine undoes the effects that are in no
	// batch, and then the batches in the ledger, the newest first. Its state then equals
	// the applied part of the log. The group drops the ledger's batches afterwards.
	Depose()

	// Cut takes all effects that are in no batch, at one instant, in parts of at most max
	// bytes each. It adds the batch to the ledger, with the old states that undo it. If
	// there are no effects, it reports that to the ledger and returns false. The caller
	// owns the parts.
	Cut(max int) (parts [][]byte, ok bool)

	// Now returns the cluster clock in unix ns, for the header of the entries of the last
	// cut.
	Now() int64

	// Snapshot captures the committed state. It must return at once; writing
	// happens in Snapshot.Persist.
	Snapshot() (Snapshot, error)

	// Restore replaces the whole state by the state in a snapshot. clock is the last
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
