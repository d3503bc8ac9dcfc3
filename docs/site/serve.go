package site

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
)

// ServeHTTP serves the site at /. A path that ends with a slash stands for its index.html.
func (s Site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(r.URL.Path, "/")
	if name == "" || strings.HasSuffix(name, "/") {
		name += "index.html"
	}
	f, ok := s[name]
	if !ok {
		http.NotFound(w, r)
		return
	}
	f.ServeHTTP(w, r)
}

// Write writes the site to a directory, uncompressed.
func (s Site) Write(dir string) error {
	for name, f := range s {
		to := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		text, err := io.ReadAll(f.Open())
		if err != nil {
			return err
		}
		if err := os.WriteFile(to, text, 0o644); err != nil {
			return err
		}
	}
	return nil
}
