package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
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
	patches, err := release(last)
	if err != nil {
		return "", fmt.Errorf("a release with another version of %s: %w", last, err)
	}
	return buildPatched(dir, patches...)
}

// release is what makes a release of the sources.
func release(last Format) ([]patch, error) {
	sources := [formats]struct{ pkg, file, version, check string }{
		Effects:  {"engine", "effects.go", "effectsVersion", "payload[0] %s effectsVersion {"},
		Entry:    {"raftlog", "entry.go", "entryVersion", "v %s entryVersion {"},
		Snapshot: {"raftlog", "snapshot.go", "snapshotVersion", "v %s snapshotVersion {"},
	}
	var patches []patch
	for _, f := range sources[:last+1] {
		dir, err := packageDir("github.com/headgate-io/headgate/" + f.pkg)
		if err != nil {
			return nil, err
		}
		file := filepath.Join(dir, f.file)
		source, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		present := regexp.MustCompile(f.version + ` += (\d+)\n`).FindSubmatch(source)
		if present == nil {
			return nil, fmt.Errorf("%s gives %s no number", file, f.version)
		}
		version, err := strconv.Atoi(string(present[1]))
		if err != nil {
			return nil, err
		}
		next := strings.Replace(string(present[0]), string(present[1]), strconv.Itoa(version+1), 1)
		patches = append(patches,
			patch{file: file, old: string(present[0]), new: next},
			patch{file: file, old: fmt.Sprintf(f.check, "!="), new: fmt.Sprintf(f.check, ">")})
	}
	return patches, nil
}
