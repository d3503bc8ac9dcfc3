// Package site makes a web site of the documentation: a page of HTML for each page of
// Markdown, with a menu, a table of contents and a search. The site needs nothing from
// elsewhere. A server serves it below /docs/, and `make docs` writes it to a directory.
package site

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html/template"
	"io/fs"
	"mime"
	"path"
	"regexp"
	"slices"
	"strings"
)

//go:embed assets
var assets embed.FS

var layout = template.Must(template.ParseFS(assets, "assets/page.html"))

const (
	// index is the page that lists the others. The menu is made from it.
	index = "README.md"
	// searched is the file that the search reads.
	searched = "search.json"
)

// listed is a link to a page in a list of pages.
var listed = regexp.MustCompile(`\]\([^):]+\.md\)`)

// File is a file of the site, compressed by gzip.
type File struct {
	Type string // the media type
	Tag  string // for the header field ETag, in quotes
	Gzip []byte
}

// Site has the files of the site by path, such as policies.html.
type Site map[string]File

// Make renders the pages of files. Links to files that are not part of files go to source,
// the address of the project's sources with a final slash. It returns an error if the
// index is missing, or if a link leads from one page to a page that is not there.
func Make(files fs.FS, source string) (Site, error) {
	s := Site{}
	r := renderer{files: files, source: source}
	pages := map[string]*page{}
	err := fs.WalkDir(files, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return err
		}
		switch path.Ext(name) {
		case ".md":
		case ".txt": // a list of pages, for programs
			return s.add(name, listed.ReplaceAllFunc(text, func(m []byte) []byte { return []byte("](" + address(string(m[2:len(m)-1])) + ")") }))
		default:
			return s.add(name, text)
		}
		pages[name], err = r.render(name, text)
		return err
	})
	if err != nil {
		return nil, err
	}
	if pages[index] == nil {
		return nil, fmt.Errorf("the index %s is missing", index)
	}
	menu := pages[index].menu()
	var found []section
	for name, p := range pages {
		var html bytes.Buffer
		err := layout.Execute(&html, map[string]any{
			"Root": strings.Repeat("../", strings.Count(name, "/")), "Page": p, "Menu": menu, "Here": address(name),
		})
		if err != nil {
			return nil, err
		}
		if err := s.add(address(name), html.Bytes()); err != nil {
			return nil, err
		}
		found = append(found, p.sections...)
	}
	slices.SortStableFunc(found, func(a, b section) int { return strings.Compare(a.Path, b.Path) })
	text, err := json.Marshal(found)
	if err != nil {
		return nil, err
	}
	for name, text := range map[string][]byte{searched: text, "site.css": asset("site.css"), "site.js": asset("site.js")} {
		if err := s.add(name, text); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// asset returns one of the package's own files.
func asset(name string) []byte {
	text, err := assets.ReadFile("assets/" + name)
	if err != nil {
		panic(err)
	}
	return text
}

// add puts a file into the site.
func (s Site) add(name string, text []byte) error {
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return err
	}
	if _, err := z.Write(text); err != nil {
		return err
	}
	if err := z.Close(); err != nil {
		return err
	}
	sum := sha256.Sum256(text)
	s[name] = File{mime.TypeByExtension(path.Ext(name)), `"` + hex.EncodeToString(sum[:8]) + `"`, b.Bytes()}
	return nil
}

// address returns the path of the page of a Markdown file.
func address(name string) string {
	if name == index {
		return "index.html"
	}
	return strings.TrimSuffix(name, ".md") + ".html"
}
