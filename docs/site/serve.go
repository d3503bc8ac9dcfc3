package site

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
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
	h := w.Header()
	h.Set("Content-Type", f.Type)
	h.Set("Content-Security-Policy", "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-cache") // ask again, by the tag
	h.Set("ETag", f.Tag)
	h.Set("Vary", "Accept-Encoding")
	if r.Header.Get("If-None-Match") == f.Tag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	if !strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		z, err := gzip.NewReader(bytes.NewReader(f.Gzip))
		if err == nil {
			_, _ = io.Copy(w, z) // the client is away
		}
		return
	}
	h.Set("Content-Encoding", "gzip")
	h.Set("Content-Length", strconv.Itoa(len(f.Gzip)))
	_, _ = w.Write(f.Gzip) // the client is away
}

// Write writes the site to a directory, uncompressed.
func (s Site) Write(dir string) error {
	for name, f := range s {
		to := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		z, err := gzip.NewReader(bytes.NewReader(f.Gzip))
		if err != nil {
			return err
		}
		text, err := io.ReadAll(z)
		if err != nil {
			return err
		}
		if err := os.WriteFile(to, text, 0o644); err != nil {
			return err
		}
	}
	return nil
}
