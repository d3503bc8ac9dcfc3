package docs_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

const recipesPage = "recipes.md"

// shownFile is a block below the name of the file that it is.
var shownFile = regexp.MustCompile("(?ms)^(\\[(examples/holds/[^]]*)\\]\\([^)]*\\):\n\n```\\w+\n)(.*?)(^```\n)")

// TestRecipeFiles demands that the page shows the files of examples/holds as they are,
// each once. With -update it writes them there.
func TestRecipeFiles(t *testing.T) {
	text, err := os.ReadFile(recipesPage)
	require.NoError(t, err)
	var shown []string
	want := shownFile.ReplaceAllStringFunc(string(text), func(block string) string {
		m := shownFile.FindStringSubmatch(block)
		shown = append(shown, m[2])
		file, err := os.ReadFile(filepath.Join("..", m[2]))
		require.NoError(t, err)
		return m[1] + string(file) + m[4]
	})
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
	if *update {
		require.NoError(t, os.WriteFile(recipesPage, []byte(want), 0o644))
		return
	}
	require.Equal(t, want, string(text), "go test ./docs -run Recipe -update writes it")
}
