// Package disk keeps on a node's disk what its Raft needs: the log, term and vote, and
// snapshots. It adds what Raft lacks. It handles a full or hanging disk, damaged
// snapshots, and a crash while a snapshot is installed. It syncs while followers work.
package disk
