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
	"embed"
	"io/fs"
	"net/http"
	"path"
	"sync"

	"github.com/headgate-io/headgate/internal/webfile"
)

//go:embed static
var static embed.FS

// policy is the Content-Security-Policy of the pages. A page runs only this package's
// modules and styles, connects only to its own origin, and cannot be framed. A script
// cannot turn text into markup, because no trusted type exists.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// files are the embedded files by their path in a URL.
var files = sync.OnceValue(func() map[string]*webfile.File {
	list := map[string]*webfile.File{}
	err := fs.WalkDir(static, "static", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := static.ReadFile(name)
		if err != nil {
			return err
		}
		at := "/console/" + path.Base(name)
		if path.Base(name) == "index.html" {
			at = "/"
		}
		list[at] = webfile.New(name, text, policy)
		return nil
	})
	if err != nil {
		panic("console: " + err.Error()) // the files are part of the program
	}
	return list
})

// Register adds the console's paths to a mux: / and those below /console/.
func Register(mux *http.ServeMux) {
	for at, f := range files() {
		if at == "/" {
			at = "/{$}"
		}
		mux.Handle("GET "+at, f)
	}
}
