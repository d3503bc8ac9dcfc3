package member

import (
	"github.com/hashicorp/raft"

	"github.com/headgate-io/headgate/raftlog/stable"
)

// Raft's keys for its term, and for the term of its last vote.
var (
	currentTermKey = []byte("CurrentTerm")
	lastVoteKey    = []byte("LastVoteTerm")
)

// HoldsState reports whether a node has anything to lose: a log, a snapshot, or a term in
// which it has voted. A founding that was interrupted between its two writes, the first
// term and the first entry, leaves only the first term. HoldsState removes such a term, and
// reports false.
func HoldsState(log raft.LogStore, values raft.StableStore, snaps raft.SnapshotStore) (bool, error) {
	holds, err := raft.HasExistingState(log, values, snaps)
	if err != nil || !holds {
		return holds, err
	}
	last, err := log.LastIndex()
	if err != nil {
		return false, err
	}
	metas, err := snaps.List()
	if err != nil {
		return false, err
	}
	term, err := stable.Number(values, currentTermKey)
	if err != nil {
		return false, err
	}
	vote, err := stable.Number(values, lastVoteKey)
	if err != nil || last > 0 || len(metas) > 0 || term != 1 || vote > 0 {
		return true, err
	}
	return false, values.SetUint64(currentTermKey, 0)
}
