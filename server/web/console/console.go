// Package console serves the console: pages for a browser that show what the node does and
// explain its limits. They change nothing.
//
// The pages are the files in static: HTML, CSS and ES modules, embedded as they are written.
// They ask the same JSON API as everybody else, so this package knows neither the server
// nor its rights.
//
// # Concurrency
//
// Any number of goroutines may use a handler at a time.
package console

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"sync"
)

//go:embed static
var static embed.FS

// policy is the Content-Security-Policy of the pages. A page runs only this package's
// modules and styles, connects only to its own origin, and cannot be framed. A script
// cannot turn text into markup, because no trusted type exists.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// file is an embedded file, ready to be sent.
type file struct {
	kind, tag  string
	plain, zip []byte
}

// kinds are the content types by the end of a file's name.
var kinds = map[string]string{
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".svg":  "image/svg+xml",
}

// files are the embedded files by their path in a URL.
var files = sync.OnceValue(func() map[string]*file {
	list := map[string]*file{}
	err := fs.WalkDir(static, "static", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := static.ReadFile(name)
		if err != nil {
			return err
		}
		sum := sha256.Sum256(text)
		at := "/console/" + path.Base(name)
		if path.Base(name) == "index.html" {
			at = "/"
		}
		list[at] = &file{kinds[path.Ext(name)], hex.EncodeToString(sum[:8]), text, compress(text)}
		return nil
	})
	if err != nil {
		panic("console: " + err.Error()) // the files are part of the program
	}
	return list
})

func compress(text []byte) []byte {
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err == nil {
		_, err = w.Write(text)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		panic("console: " + err.Error()) // a buffer takes everything
	}
	return b.Bytes()
}

// Register adds the console's paths to a mux: / and those below /console/.
func Register(mux *http.ServeMux) {
	for at, f := range files() {
		if at == "/" {
			at = "/{$}"
		}
		mux.Handle("GET "+at, f)
	}
}

// ServeHTTP answers with the file.
func (f *file) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Cache-Control", "no-cache") // the browser asks whether its copy is the newest
	h.Set("Content-Security-Policy", policy)
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Vary", "Accept-Encoding")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	tag, text := `"`+f.tag+`"`, f.plain
	zipped := takesGzip(r.Header["Accept-Encoding"])
	if zipped {
		tag, text = `"`+f.tag+`-gzip"`, f.zip
	}
	h.Set("Etag", tag)
	if strings.Contains(strings.Join(r.Header["If-None-Match"], ","), tag) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	if zipped {
		h.Set("Content-Encoding", "gzip")
	}
	h.Set("Content-Type", f.kind)
	if r.Method != http.MethodHead {
		// An error means that the peer has gone.
		_, _ = w.Write(text)
	}
}

// takesGzip reports whether a client accepts gzip, by its Accept-Encoding.
func takesGzip(accept []string) bool {
	for _, line := range accept {
		for coding := range strings.SplitSeq(line, ",") {
			name, weight, _ := strings.Cut(coding, ";")
			if strings.EqualFold(strings.TrimSpace(name), "gzip") {
				return strings.TrimRight(strings.ReplaceAll(weight, " ", ""), "0.") != "q="
			}
		}
	}
	return false
}
