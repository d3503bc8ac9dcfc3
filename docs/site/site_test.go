package site_test

import (
	"encoding/json"
	"io"
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
	var found []struct{ U, T, S string }
	require.NoError(t, json.Unmarshal([]byte(texts["search.json"]), &found))
	assert.Greater(t, len(found), 100)
	for _, f := range found {
		at, fragment, _ := strings.Cut(f.U, "#")
		assert.True(t, fragment == "" || ids[at][fragment], "the search finds %s", f.U)
	}
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
	require.Len(t, s, 8)
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
	assert.Contains(t, plain(t, s["search.json"]), `{"u":"two.html#two-words","t":"Two › Two words!","s":"find me"}`)
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
