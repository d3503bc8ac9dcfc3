package raftlog

import "io"

// ReadEntry returns the group and the payload of a log entry, which is the Data of a
// command in a log. It is for programs that look into the log of a stopped node. The
// payload aliases b. Errors wrap ErrVersion or ErrCorrupt.
func ReadEntry(b []byte) (group uint32, payload []byte, err error) {
	h, payload, err := decodeEntry(b)
	return h.group, payload, err
}

// ReadSnapshot splits a snapshot of a group. It returns the payloads of the batch that was
// incomplete, and a reader of the machine's state.
func ReadSnapshot(r io.Reader, group uint32) (parts [][]byte, state io.Reader, err error) {
	h, state, err := readSnapshotHeader(r, group)
	return h.cursor.parts, state, err
}
