package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestUpToDate demands that the committed pictures are those that would be drawn now.
func TestUpToDate(t *testing.T) {
	for name, draw := range pictures() {
		want, err := draw()
		require.NoError(t, err)
		have, err := os.ReadFile(filepath.Join("..", "img", name+".svg"))
		require.NoError(t, err)
		require.Equal(t, string(want), string(have), "%s: go generate ./docs/figures draws it again", name)
	}
}

// TestBounds demands of each picture the worst case that algorithms.md states.
func TestBounds(t *testing.T) {
	bounds := map[string]int{"token": 2 * limit, "leaky": limit, "fixed": 2 * limit, "sliding": 2*limit - 1, "log": limit, "slots": limit}
	for _, f := range figures() {
		calls, err := f.run()
		require.NoError(t, err)
		most := 0
		for _, s := range steps(calls, f.span) {
			most = max(most, s.units)
		}
		require.LessOrEqual(t, most, bounds[f.name], f.name)
		require.GreaterOrEqual(t, most, limit, f.name)
	}
}
