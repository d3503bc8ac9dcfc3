// Package disk keeps on a node's disk what its Raft needs: the log, term and vote, and
// snapshots. It adds what Raft lacks: it handles a full or hanging disk, damaged
// snapshots, syncs that run while followers work, and a crash while a snapshot is
// installed.
package disk
