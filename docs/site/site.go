// Package site makes a web site of the documentation: a page of HTML for each page of
// Markdown, with a menu, a table of contents and a search. The site needs nothing from
// elsewhere. A server serves it below /docs/, and `make docs` writes it to a directory.
package site

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"html/template"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/headgate-io/headgate/internal/webfile"
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

// policy is the Content-Security-Policy of the pages: they load nothing from elsewhere.
const policy = "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// Site has the files of the site by path, such as policies.html.
type Site map[string]*webfile.File

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
			s.add(name, listed.ReplaceAllFunc(text, func(m []byte) []byte { return []byte("](" + address(string(m[2:len(m)-1])) + ")") }))
			return nil
		default:
			s.add(name, text)
			return nil
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
		s.add(address(name), html.Bytes())
		found = append(found, p.sections...)
	}
	slices.SortStableFunc(found, func(a, b section) int { return strings.Compare(a.Path, b.Path) })
	text, err := json.Marshal(newLookup(found))
	if err != nil {
		return nil, err
	}
	s.add(searched, text)
	s.add("site.css", asset("site.css"))
	s.add("site.js", asset("site.js"))
	s.add("icon.svg", asset("icon.svg"))
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
func (s Site) add(name string, text []byte) { s[name] = webfile.New(name, text, policy) }

// address returns the path of the page of a Markdown file.
func address(name string) string {
	if name == index {
		return "index.html"
	}
	return strings.TrimSuffix(name, ".md") + ".html"
}
