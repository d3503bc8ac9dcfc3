// Package disk keeps on a node's disk what its Raft needs: the log, term and vote, and
// snapshots. It puts between Raft and the files what Raft leaves out: a full or hanging
// disk, damaged snapshots, syncs that run while followers work, and what a crash in the
// middle of installing a snapshot leaves.
package disk
