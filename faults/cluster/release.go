package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// BuildRelease builds a headgate from the future. It knows the next version of every format beside the present one, and
// a feature level that permits them.
func BuildRelease(dir string) (string, error) {
	patches, err := release()
	if err != nil {
		return "", fmt.Errorf("a later release: %w", err)
	}
	return buildPatched(dir, patches...)
}

// release is what makes a later release of the sources.
func release() ([]patch, error) {
	var patches []patch
	newest := make(map[string]int)
	for _, f := range []struct{ pkg, file, name string }{
		{"engine/effects", "effects.go", "Newest"},
		{"raftlog", "entry.go", "entryNewest"},
		{"raftlog", "snapshot.go", "snapshotNewest"},
	} {
		dir, err := packageDir("github.com/headgate-io/headgate/" + f.pkg)
		if err != nil {
			return nil, err
		}
		file := filepath.Join(dir, f.file)
		source, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		present := regexp.MustCompile(f.name + ` += (\d+) //`).FindSubmatch(source)
		if present == nil {
			return nil, fmt.Errorf("%s gives %s no number", file, f.name)
		}
		version, err := strconv.Atoi(string(present[1]))
		if err != nil {
			return nil, err
		}
		newest[f.name] = version + 1
		next := strings.Replace(string(present[0]), string(present[1]), strconv.Itoa(version+1), 1)
		patches = append(patches, patch{file: file, old: string(present[0]), new: next})
	}
	dir, err := packageDir("github.com/headgate-io/headgate/cluster")
	if err != nil {
		return nil, err
	}
	const end = "\n}\n\n// FeatureLevel"
	return append(patches, patch{file: filepath.Join(dir, "features.go"), old: end, new: fmt.Sprintf(
		"\n\t{raftlog.Formats{Entry: %d, Snapshot: %d}, effects.Formats{Effects: %d}},%s",
		newest["entryNewest"], newest["snapshotNewest"], newest["Newest"], end)}), nil
}
