package member

import (
	"github.com/hashicorp/raft"

	"github.com/headgate-io/headgate/raftlog/stable"
)

// Where Raft keeps its term, and the term of its last vote.
var (
	currentTermKey = []byte("CurrentTerm")
	lastVoteKey    = []byte("LastVoteTerm")
)

// HoldsState reports whether a node has anything to lose: a log, a snapshot, a
// term it has voted in. A founding that was interrupted between its two writes,
// the first term and the first entry, is taken back: nothing else leaves that
// term alone.
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
