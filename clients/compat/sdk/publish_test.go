package sdk_test

import (
	"archive/zip"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// version is that of our modules in each other's go.mod.
const version = "v0.0.0"

// moduleCache returns a cache of this test with what others have in the usual one, so that
// our modules stay out of that.
func moduleCache(t *testing.T) string {
	usual, err := exec.Command("go", "env", "GOMODCACHE").Output()
	require.NoError(t, err)
	cache := t.TempDir()
	from := filepath.Join(strings.TrimSpace(string(usual)), "cache", "download")
	to := filepath.Join(cache, "cache", "download")
	require.NoError(t, os.MkdirAll(to, 0o700))
	for _, name := range []string{"github.com", "go.uber.org", "golang.org"} {
		if entries, err := os.ReadDir(filepath.Join(from, name)); err == nil {
			require.NoError(t, os.Mkdir(filepath.Join(to, name), 0o700))
			for _, e := range entries {
				if e.Name() != "headgate-io" {
					require.NoError(t, os.Symlink(filepath.Join(from, name, e.Name()), filepath.Join(to, name, e.Name())))
				}
			}
		}
	}
	return cache
}

// publish puts a module into a module proxy.
func publish(t *testing.T, proxy, module, dir string) {
	at := filepath.Join(proxy, filepath.FromSlash(module), "@v")
	require.NoError(t, os.MkdirAll(at, 0o700))
	write := func(name string, content []byte) {
		require.NoError(t, os.WriteFile(filepath.Join(at, name), content, 0o600))
	}
	mod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	require.NoError(t, err)
	write("list", []byte(version+"\n"))
	write(version+".info", []byte(`{"Version":"`+version+`"}`))
	write(version+".mod", mod)
	archive, err := os.Create(filepath.Join(at, version+".zip"))
	require.NoError(t, err)
	z := zip.NewWriter(archive)
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if _, err := os.Stat(filepath.Join(path, "go.mod")); path != dir && err == nil {
				return fs.SkipDir // another module
			}
			return nil
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		w, err := z.Create(module + "@" + version + "/" + filepath.ToSlash(name))
		if err != nil {
			return err
		}
		_, err = w.Write(content)
		return err
	}))
	require.NoError(t, z.Close())
	require.NoError(t, archive.Close())
}
