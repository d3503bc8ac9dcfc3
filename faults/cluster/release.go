package cluster

import (
	"fmt"
	"path/filepath"
)

// Format is something that nodes write to disk or send each other, and that carries a version.
type Format int

// The formats, in the order in which releases change them: see BuildRelease.
const (
	Effects Format = iota
	Entry
	Snapshot
	formats
)

// String names the format.
func (f Format) String() string { return [...]string{"effects", "log entry", "snapshot"}[f] }

// Complaint is what a node says that meets a version of the format which it does not know.
func (f Format) Complaint() string {
	return [...]string{"unreadable effects: version", "unknown format version: log entry", "unknown format version: snapshot"}[f]
}

// Formats are all formats.
func Formats() []Format { return []Format{Effects, Entry, Snapshot} }

// BuildRelease builds a headgate from the future: it writes the next version of all formats up to and including last, and
// still reads the present one.
func BuildRelease(dir string, last Format) (string, error) {
	root := sourceRoot()
	entry, snapshot, effects := filepath.Join(root, "raftlog", "entry.go"), filepath.Join(root, "raftlog", "snapshot.go"), filepath.Join(root, "engine", "effects.go")
	all := [formats][]patch{
		Effects: {
			{file: effects, old: "const effectsVersion = 1\n", new: "const effectsVersion = 2\n"},
			{file: effects, old: "payload[0] != effectsVersion {", new: "payload[0] > effectsVersion {"},
		},
		Entry: {
			{file: entry, old: "const entryVersion = 1\n", new: "const entryVersion = 2\n"},
			{file: entry, old: "v != entryVersion {", new: "v > entryVersion {"},
		},
		Snapshot: {
			{file: snapshot, old: "snapshotVersion = 1\n", new: "snapshotVersion = 2\n"},
			{file: snapshot, old: "v != snapshotVersion {", new: "v > snapshotVersion {"},
		},
	}
	var patches []patch
	for f := range last + 1 {
		patches = append(patches, all[f]...)
	}
	bin, err := buildPatched(dir, patches...)
	if err != nil {
		return "", fmt.Errorf("a release with another version of %s: %w", last, err)
	}
	return bin, nil
}
