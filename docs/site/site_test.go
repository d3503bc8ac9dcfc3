package site_test

import (
	"encoding/json"
	"io"
	"io/fs"
	"net/http/httptest"
	"path"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/docs"
	"github.com/headgate-io/headgate/docs/site"
	"github.com/headgate-io/headgate/internal/webfile"
)

// mostBytes bounds the site, compressed: each server carries its pages.
const mostBytes = 1 << 20

func plain(t *testing.T, f *webfile.File) string {
	t.Helper()
	text, err := io.ReadAll(f.Open())
	require.NoError(t, err)
	return string(text)
}

var (
	reference = regexp.MustCompile(`(?:href|src)="([^"]*)"`)
	id        = regexp.MustCompile(` id="([^"]*)"`)
	inline    = regexp.MustCompile(`<script>|<style|[^-]style="| on[a-z]+="|raw HTML omitted`)
)

// Every link of the site leads to a file of the site and to a heading, or to the sources.
// No page needs anything from elsewhere, or anything that its security policy forbids.
func TestTheSiteIsWhole(t *testing.T) {
	s, err := site.Make(docs.Files, docs.Source)
	require.NoError(t, err)
	texts, ids, size := map[string]string{}, map[string]map[string]bool{}, 0
	for name, f := range s {
		size += f.Size()
		texts[name], ids[name] = plain(t, f), map[string]bool{}
		for _, m := range id.FindAllStringSubmatch(texts[name], -1) {
			assert.False(t, ids[name][m[1]], "%s has two headings %s", name, m[1])
			ids[name][m[1]] = true
		}
	}
	assert.Less(t, size, mostBytes)
	links := 0
	for name, text := range texts {
		if path.Ext(name) != ".html" {
			continue
		}
		assert.Empty(t, inline.FindString(text), name)
		for _, m := range reference.FindAllStringSubmatch(text, -1) {
			links++
			to, fragment, _ := strings.Cut(m[1], "#")
			if strings.Contains(to, ":") {
				assert.NotContains(t, m[0], `src="`, "%s loads %s", name, m[1])
				continue
			}
			at := name
			if to != "" {
				at = path.Join(path.Dir(name), to)
			}
			if assert.Contains(t, texts, at, "%s links to %s", name, m[1]) && fragment != "" {
				assert.True(t, ids[at][fragment], "%s links to %s", name, m[1])
			}
		}
	}
	assert.Greater(t, links, 500)
	index := readLookup(t, s)
	assert.Greater(t, len(index.Sections), 100)
	for _, section := range index.Sections {
		at, fragment, _ := strings.Cut(section[0], "#")
		assert.True(t, fragment == "" || ids[at][fragment], "the search finds %s", section[0])
	}
}

// lookup is what the search of the site reads.
type lookup struct {
	Sections [][2]string
	Words    map[string][]int
}

func readLookup(t *testing.T, s site.Site) lookup {
	t.Helper()
	var l lookup
	require.NoError(t, json.Unmarshal([]byte(plain(t, s["search.json"])), &l))
	return l
}

// find returns the pages on which the search finds a word, as site.js does: the word is a
// part of a section's title or of a word of its text.
func (l lookup) find(word string) map[string]bool {
	found := map[string]bool{}
	word = strings.ToLower(word)
	page := func(section int) string {
		page, _, _ := strings.Cut(l.Sections[section][0], "#")
		return page
	}
	for i, section := range l.Sections {
		if strings.Contains(strings.ToLower(section[1]), word) {
			found[page(i)] = true
		}
	}
	for have, steps := range l.Words {
		if !strings.Contains(have, word) {
			continue
		}
		at := 0
		for _, step := range steps {
			at += step
			found[page(at)] = true
		}
	}
	return found
}

// named is the first word of a name, in the first column of a table or in a heading.
var named = regexp.MustCompile("^(?:\\| `([^` ]+)|## ([A-Z.]+)$)")

// The search finds each command, parameter, metric and code of an error on the page that
// explains it.
func TestTheSearchFindsNames(t *testing.T) {
	s, err := site.Make(docs.Files, docs.Source)
	require.NoError(t, err)
	index := readLookup(t, s)
	pages, err := fs.Glob(docs.Files, "commands/*.md")
	require.NoError(t, err)
	names := 0
	for _, name := range append(pages, "configuration.md", "metrics.md", "errors.md") {
		text, err := fs.ReadFile(docs.Files, name)
		require.NoError(t, err)
		page := strings.TrimSuffix(name, ".md") + ".html"
		for line := range strings.Lines(string(text)) {
			if m := named.FindStringSubmatch(strings.TrimSpace(line)); m != nil {
				names++
				assert.True(t, index.find(m[1] + m[2])[page], "the search does not find %s on %s", m[1]+m[2], page)
			}
		}
	}
	assert.Greater(t, names, 400)
}

// three is a small site with a page in a folder.
var three = fstest.MapFS{
	"README.md":    {Data: []byte("# Map\n\n## How to\n\n- [one](howto/one.md)\n- [code](../engine/DESIGN.md)\n")},
	"howto/one.md": {Data: []byte("# One & all\n\n<!-- written -->\n\n<b>raw</b> text, [two](../two.md#two-words), ![](../img/p.svg)\n")},
	"llms.txt":     {Data: []byte("[map](README.md) and [one](howto/one.md)")},
	"two.md":       {Data: []byte("---\nname: two\n---\n\n# Two\n\n## Two `words`!\n\nfind me\n")},
	"img/p.svg":    {Data: []byte("<svg/>")},
}

func TestPages(t *testing.T) {
	s, err := site.Make(three, "https://example/")
	require.NoError(t, err)
	require.Len(t, s, 9)
	one := plain(t, s["howto/one.html"])
	for _, want := range []string{
		"<title>One &amp; all", `href="../two.html#two-words"`, `src="../img/p.svg"`, `<a href="../howto/one.html" aria-current="page">one</a>`, "<strong>How to</strong>",
	} {
		assert.Contains(t, one, want)
	}
	assert.NotContains(t, one, "<b>")
	assert.NotContains(t, one, "written")
	assert.NotContains(t, plain(t, s["two.html"]), "name: two")
	assert.Equal(t, "[map](index.html) and [one](howto/one.html)", plain(t, s["llms.txt"]))
	assert.Contains(t, plain(t, s["index.html"]), `href="https://example/engine/DESIGN.md"`)
	assert.JSONEq(t, `{
		"sections": [["howto/one.html", "One & all"], ["index.html#how-to", "Map › How to"], ["two.html#two-words", "Two › Two words!"]],
		"words": {"raw": [0], "text": [0], "two": [0], "one": [1], "code": [1], "find": [2], "me": [2]}
	}`, plain(t, s["search.json"]))
}

func TestMistakesInPages(t *testing.T) {
	_, err := site.Make(fstest.MapFS{"README.md": {Data: []byte("[gone](gone.md)")}}, "")
	require.ErrorContains(t, err, "README.md links to gone.md")
	_, err = site.Make(fstest.MapFS{"other.md": {Data: []byte("# Other")}}, "")
	require.ErrorContains(t, err, "README.md is missing")
}

func TestServe(t *testing.T) {
	s, err := site.Make(three, "")
	require.NoError(t, err)
	get := func(path string, header ...string) *httptest.ResponseRecorder {
		r := httptest.NewRequest("GET", path, nil)
		for i := 0; i < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		return w
	}
	w := get("/")
	require.Equal(t, 200, w.Code)
	assert.Equal(t, "text/html; charset=utf-8", w.Header().Get("Content-Type"))
	assert.Contains(t, w.Header().Get("Content-Security-Policy"), "default-src 'self'")
	assert.Contains(t, w.Body.String(), "<h1")
	tag := w.Header().Get("ETag")
	assert.Equal(t, 304, get("/index.html", "If-None-Match", tag).Code)
	assert.Equal(t, 200, get("/two.html", "If-None-Match", tag).Code)
	for _, path := range []string{"/two", "/../site.go", "/howto/", "/two.md"} {
		assert.Equal(t, 404, get(path).Code, path)
	}
}

func TestWrite(t *testing.T) {
	s, err := site.Make(three, "")
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, s.Write(dir))
	require.FileExists(t, dir+"/howto/one.html")
	require.FileExists(t, dir+"/search.json")
}
