package docs_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// shownFile is a block below the name of the file that it is.
var shownFile = regexp.MustCompile("(?ms)^(\\[(examples/[^]]*)\\]\\([^)]*\\):\n\n```\\w+\n)(.*?)(^```\n)")

// TestShownFiles demands that the pages show the files of examples as they are, those of
// examples/holds each once. With -update it writes them there.
func TestShownFiles(t *testing.T) {
	var shown []string
	for _, page := range pages(t) {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		want := shownFile.ReplaceAllStringFunc(string(text), func(block string) string {
			m := shownFile.FindStringSubmatch(block)
			if strings.HasPrefix(m[2], "examples/holds/") {
				shown = append(shown, m[2])
			}
			file, err := os.ReadFile(filepath.Join("..", m[2]))
			require.NoError(t, err)
			return m[1] + string(file) + m[4]
		})
		if *update {
			require.NoError(t, os.WriteFile(page, []byte(want), 0o644))
			continue
		}
		require.Equal(t, want, string(text), "%s: go test ./docs -run Shown -update writes it", page)
	}
	var files []string
	require.NoError(t, fs.WalkDir(os.DirFS(".."), "examples/holds", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && d.Name() == "__pycache__" {
			return fs.SkipDir
		}
		if err == nil && !d.IsDir() {
			files = append(files, path)
		}
		return err
	}))
	require.ElementsMatch(t, files, shown)
}
