package main

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSDKTargets(t *testing.T) {
	rep := report{SDKs: []sdkRow{
		{"Go", "lease", 1, 60, 90}, {"Node", "lease", 10_000, 900, 2500}, {"Python", "away", 1, 3000, 16_000}, {"Go", "middleware", 1, 1000, 30_000},
	}}
	require.Equal(t, [][2]any{{0.09, "goal"}, {2.5, "pass"}, {16.0, "miss"}, {30.0, "pass"}}, marks(rep.targets()))
	rep.Targets = rep.targets()
	require.Contains(t, rep.markdown(), "| Node: decision by a lease, 10000 keys: p99 | **2.5 µs** |")
}

// A language that cannot run is named. One that runs but leaves a row out is an error.
func TestSDKScripts(t *testing.T) {
	b := &bench{root: t.TempDir(), effort: effort{runs: 1}, progress: t.Output()}
	s := sdkScript{"Shell", "pkg", "installed", "install it", nil, []string{"sh", "speed.sh"}}
	require.Equal(t, "Shell is left out: installed of pkg is missing (install it)", s.missing(b.root))
	gone := sdkScript{"Cobol", "pkg", "installed", "install it", nil, []string{"no-such-program"}}
	require.Equal(t, "Cobol is left out: no-such-program is not installed", gone.missing(b.root))
	dir := filepath.Join(b.root, "pkg")
	require.NoError(t, os.Mkdir(dir, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "installed"), nil, 0o644))
	require.Empty(t, s.missing(b.root))
	script := func(text string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "speed.sh"), []byte(text), 0o644))
	}
	script(`for of in lease away middleware; do for keys in 1 10000; do echo "{\"of\": \"$of\", \"keys\": $keys, \"p50\": 1, \"p99\": $keys}"; done; done`)
	rows, err := b.measureScript(context.Background(), &s)
	require.NoError(t, err)
	require.Len(t, rows, len(sdkRows))
	require.Equal(t, sdkRow{"Shell", "lease", 10_000, 1, 10_000}, rows[1])
	for _, bad := range []string{"echo nonsense", "exit 1", `echo '{"of": "lease", "keys": 1}'`} {
		script(bad)
		_, err := b.measureScript(context.Background(), &s)
		require.Error(t, err, bad)
	}
}
