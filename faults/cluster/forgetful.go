package cluster

import (
	"fmt"
	"path/filepath"
)

// BuildForgetful builds a headgate that takes no call for one that was made before, whatever its name: who repeats one is
// charged again.
func BuildForgetful(dir string) (string, error) {
	patches, err := forgetful()
	if err != nil {
		return "", fmt.Errorf("one that knows no call again: %w", err)
	}
	return buildPatched(dir, patches...)
}

// forgetful is what makes one of the sources.
func forgetful() ([]patch, error) {
	var patches []patch
	for _, p := range []struct{ pkg, file, old, new string }{
		{"engine", "reserve.go", "found && !ent.Expired(now) {", "found && !ent.Expired(now) && false {"},
		{"server/checks", "reserve.go", "if named && !ready && c.repeat(", "if named && !ready && false && c.repeat("},
		{"server/checks", "reserve.go", "if !named || !ready || !c.repeat(", "if !named || !ready || true || !c.repeat("},
	} {
		source, err := packageDir("github.com/headgate-io/headgate/" + p.pkg)
		if err != nil {
			return nil, err
		}
		patches = append(patches, patch{file: filepath.Join(source, p.file), old: p.old, new: p.new})
	}
	return patches, nil
}
