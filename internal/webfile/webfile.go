// Package webfile serves files of the program to browsers: compressed, with a tag by which a
// browser keeps its copy, and with the header fields that keep other origins out.
package webfile

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"path"
	"strings"
)

// File is a file, compressed. It is an http.Handler, for any number of goroutines at a time.
type File struct {
	zip       []byte
	kind, tag string
	policy    string
}

// kinds are the content types by the end of a file's name.
var kinds = map[string]string{
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".json": "application/json",
	".png":  "image/png",
	".svg":  "image/svg+xml",
	".txt":  "text/plain; charset=utf-8",
}

// New returns a file with a name, whose end says what it is, and a
// Content-Security-Policy.
func New(name string, text []byte, policy string) *File {
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err == nil {
		_, err = w.Write(text)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		panic("webfile: " + err.Error()) // a buffer takes everything
	}
	sum := sha256.Sum256(text)
	return &File{b.Bytes(), kinds[path.Ext(name)], hex.EncodeToString(sum[:8]), policy}
}

// Kind returns the content type, "" if the name says none.
func (f *File) Kind() string { return f.kind }

// Size returns the number of bytes, compressed.
func (f *File) Size() int { return len(f.zip) }

// Open returns a reader of the file as it was before it was compressed.
func (f *File) Open() io.Reader {
	r, err := gzip.NewReader(bytes.NewReader(f.zip))
	if err != nil {
		panic("webfile: " + err.Error()) // New has compressed it
	}
	return r
}

// ServeHTTP answers with the file.
func (f *File) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Cache-Control", "no-cache") // the browser asks whether its copy is the newest
	h.Set("Content-Security-Policy", f.policy)
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Vary", "Accept-Encoding")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	tag, zipped := `"`+f.tag+`"`, takesGzip(r.Header["Accept-Encoding"])
	if zipped {
		tag = `"` + f.tag + `-gzip"`
	}
	h.Set("Etag", tag)
	if strings.Contains(strings.Join(r.Header["If-None-Match"], ","), tag) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	h.Set("Content-Type", f.kind)
	if zipped {
		h.Set("Content-Encoding", "gzip")
	}
	if r.Method == http.MethodHead {
		return
	}
	// An error of what follows means that the peer has gone.
	if zipped {
		_, _ = w.Write(f.zip)
		return
	}
	_, _ = io.Copy(w, f.Open())
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
