// Package disk keeps on a node's disk what the node's Raft needs: the log, term and vote,
// and snapshots. It handles cases that Raft does not: a full or hanging disk, damaged
// snapshots, and a crash while a snapshot is installed. It also lets the leader's disk sync
// while followers work.
package disk
