package cluster

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/headgate-io/headgate/internal/subprocess"
)

// patch is a change to the source of a build: the product itself has no part in it.
type patch struct {
	file, old, new string // old must stand in the file exactly once

	// added is a further file, with its source; none if empty.
	added  string
	source []byte
}

// buildPatched builds headgate into dir with changed sources.
func buildPatched(dir string, patches ...patch) (string, error) {
	overlay, err := applyPatches(dir, patches...)
	if err != nil {
		return "", err
	}
	return subprocess.Build(dir, "-overlay", overlay)
}

// applyPatches writes the changed sources into dir, and the file that names them to go build. It fails if a source is not
// what its patch expects.
func applyPatches(dir string, patches ...patch) (overlay string, err error) {
	replace := make(map[string]string)
	write := func(path string, source []byte) error {
		to := filepath.Join(dir, fmt.Sprintf("%d-%s", len(replace), filepath.Base(path)))
		replace[path] = to
		return os.WriteFile(to, source, 0o644)
	}
	for _, p := range patches {
		from := p.file
		if to, ok := replace[from]; ok {
			from = to
		}
		source, err := os.ReadFile(from)
		if err != nil {
			return "", err
		}
		if n := bytes.Count(source, []byte(p.old)); n != 1 {
			return "", fmt.Errorf("%s holds %q %d times, want once", p.file, p.old, n)
		}
		if err := write(p.file, bytes.Replace(source, []byte(p.old), []byte(p.new), 1)); err != nil {
			return "", err
		}
		if p.added != "" {
			if err := write(p.added, p.source); err != nil {
				return "", err
			}
		}
	}
	list, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	overlay = filepath.Join(dir, "overlay.json")
	return overlay, os.WriteFile(overlay, list, 0o644)
}

// packageDir is the directory of a package's sources, as a build finds them.
func packageDir(pkg string) (string, error) {
	dir, err := exec.Command("go", "list", "-f", "{{.Dir}}", pkg).Output()
	if err != nil {
		return "", fmt.Errorf("find package %s: %w", pkg, err)
	}
	return strings.TrimSpace(string(dir)), nil
}
