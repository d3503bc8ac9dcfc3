package route

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func parse(t testing.TB, texts ...string) (patterns []Pattern) {
	t.Helper()
	for _, s := range texts {
		p, err := Parse(s)
		require.NoError(t, err, s)
		require.Equal(t, s, p.String())
		patterns = append(patterns, p)
	}
	return patterns
}

func table(t testing.TB, fold bool, texts ...string) *Table {
	t.Helper()
	x, err := New(parse(t, texts...), fold)
	require.NoError(t, err)
	return x
}

// match is the pattern of `METHOD host/path`, with the values of its names.
func match(t testing.TB, x *Table, request string) string {
	t.Helper()
	method, place, _ := strings.Cut(request, " ")
	at := strings.IndexByte(place, '/')
	var f Found
	if !x.Match(method, place[:at], place[at:], &f) {
		return ""
	}
	p := x.Pattern(f.Pattern)
	s := p.String()
	for i, name := range p.Params() {
		s += fmt.Sprintf(" %s=%s", name, f.Param(i))
	}
	return s
}

func TestMostSpecificPattern(t *testing.T) {
	x := table(t, false,
		"/*", "/v1/*", "/v1", "/v1/users/{id}", "/v1/users/me", "GET /v1/users/me", "GET /v1/items/{id}", "/v1/{kind}/{id}", "/v1/{kind}/{id}/edit", "HEAD /only", "GET /only",
		"POST|PUT /v1/users/{id}/orders",
		"api.example.com/v1/*", "*.example.com/", "*.eu.example.com/*", "*.com/a", "GET *.example.com/{x}",
	)
	for request, want := range map[string]string{
		"GET x/":                       "/*",
		"GET x/a/b":                    "/*",
		"GET x/v1":                     "/v1",
		"GET x/v1/a":                   "/v1/*",
		"POST x/v1/users/me":           "/v1/users/me",
		"HEAD x/v1/users/me":           "GET /v1/users/me",
		"GET x/v1/users/7":             "/v1/users/{id} id=7",
		"HEAD x/v1/items/7":            "GET /v1/items/{id} id=7",
		"POST x/v1/items/7":            "/v1/{kind}/{id} kind=items id=7",
		"GET x/v1/users/me/edit":       "/v1/{kind}/{id}/edit kind=users id=me",
		"GET x/v1/users/7/edit":        "/v1/{kind}/{id}/edit kind=users id=7",
		"GET x/v1/users/7/edit/b":      "/v1/*",
		"PUT x/v1/users/7/orders":      "POST|PUT /v1/users/{id}/orders id=7",
		"GET x/v1/users/7/orders":      "/v1/*",
		"HEAD x/only":                  "HEAD /only",
		"GET x/only":                   "GET /only",
		"POST x/only":                  "/*",
		"GET api.example.com/v1/b":     "api.example.com/v1/*",
		"GET api.example.com/":         "*.example.com/",
		"GET api.example.com/c":        "GET *.example.com/{x} x=c",
		"POST api.example.com/c":       "/*",
		"GET api.example.com/a":        "GET *.example.com/{x} x=a",
		"POST api.example.com/a":       "*.com/a",
		"GET example.com/":             "/*",
		"GET a.eu.example.com/v1":      "*.eu.example.com/*",
		"GET eu.example.com/v1":        "GET *.example.com/{x} x=v1",
		"GET a.b.c.eu.example.com/x/y": "*.eu.example.com/*",
		"GET .com/a":                   "/*",
		"GET .example.com/":            "/*",
		"GET " + strings.Repeat("a.", 100) + "example.com/": "*.example.com/",
		"GET x/" + strings.Repeat("a/", 1000) + "b":         "/*",
	} {
		require.Equal(t, want, match(t, x, request), request)
	}
	x = table(t, false, "/a")
	require.Empty(t, match(t, x, "GET x/"))
	require.Empty(t, match(t, table(t, false), "GET x/"))
	// Case counts, unless it does not.
	require.Empty(t, match(t, x, "GET x/A"))
	require.Equal(t, "/A/{x} x=b", match(t, table(t, true, "/A/{x}"), "GET x"+Clean("/a/B", SlashInSegment, true)))
}

func TestPatternsThatAreRefused(t *testing.T) {
	for text, want := range map[string]string{
		"":                                     "a path is missing",
		"GET":                                  "a path is missing",
		"GET api.example.com":                  "a path is missing",
		"GET  /":                               "a space",
		"get /":                                `"get" is not a method`,
		"GET|GET /":                            "twice",
		"GET| /":                               `"" is not a method`,
		"api.example.com:80/":                  "without a port",
		"*/":                                   "a host is",
		"a*.com/":                              "a host is",
		"*.*.com/":                             "a host is",
		"a..b/":                                "a host is",
		strings.Repeat("a.", 12) + "b/":        "a host is",
		"/a//b":                                "must not have an empty segment",
		"/a/":                                  "or a slash at the end",
		"/a/../b":                              "must not have the segment ..",
		"/a*":                                  "a whole segment",
		"/*/a":                                 "a whole segment",
		"/a{b}":                                "a whole segment",
		"/{}":                                  "a name is",
		"/{A}":                                 "a name is",
		"/{a}/{a}":                             "twice",
		"/a?b":                                 "must not have ?",
		"/a%20":                                "as they are",
		"/a;b":                                 "must not have ?, # or ;",
		strings.Repeat("/a", 33):               "32 segments",
		"/" + strings.Repeat("x", 512):         "512 bytes",
		"/{a}/{b}/{c}/{d}/{e}/{f}/{g}/{h}/{i}": "8 names",
	} {
		_, err := Parse(text)
		require.ErrorContains(t, err, want, text)
	}
}

func TestPatternsThatConflict(t *testing.T) {
	for _, x := range []struct {
		a, b, want string
	}{
		{"/a", "/a", "same requests"},
		{"/{a}", "/{b}", "same requests"},
		{"GET /a", "GET|POST /a", "same requests"},
		{"/a/{x}", "/{y}/b", "neither is more specific"},
		{"GET /a/{x}", "/a/b", "neither is more specific"},
		{"HEAD /a/{x}", "GET /a/b", "neither is more specific"},
		{"/a/*", "/{x}/b", "neither is more specific"},
		{"/a/*", "/{x}", "neither is more specific"},
		{"GET /*", "/a", "neither is more specific"},
		{"/a/{x}", "POST /a/b", ""},
		{"GET /a/{x}", "POST /a/b", ""},
		{"/a/*", "/a/{x}", ""},
		{"/a/*", "/a", ""},
		{"/a/{x}/c", "/{y}/b/d", ""},
		{"x/a/{x}", "y/{y}/b", ""},
		{"x/a", "X/a", "same requests"},
		{"*.x/a", "x/a", ""},
	} {
		for _, texts := range [][]string{{x.a, x.b}, {x.b, x.a}} {
			_, err := New(parse(t, texts...), false)
			if x.want == "" {
				require.NoError(t, err, texts)
				continue
			}
			require.ErrorContains(t, err, x.want, texts)
			var c *Conflict
			require.ErrorAs(t, err, &c)
			require.Equal(t, 1, c.Pattern)
		}
	}
	_, err := New(parse(t, "/A", "/a"), false)
	require.NoError(t, err)
	_, err = New(parse(t, "/A", "/a"), true)
	require.ErrorContains(t, err, "same requests")
}

// Patterns that would make a look-up long, or take much memory, are refused.
func TestTablesAreBounded(t *testing.T) {
	// Each segment is a or has a name: a look-up of a/a/… would try all of them.
	var texts []string
	for i := range 1 << 8 {
		s := ""
		for bit := range 8 {
			s += [2]string{"/a", fmt.Sprintf("/{x%d}", bit)}[i>>bit&1]
		}
		texts = append(texts, fmt.Sprintf("x%s/z%d", s, i))
	}
	_, err := New(parse(t, texts[:1<<5]...), false)
	require.NoError(t, err)
	_, err = New(parse(t, texts...), false)
	require.ErrorContains(t, err, "too long")

	texts = nil
	for i := range MaxPatterns {
		texts = append(texts, fmt.Sprintf("/{a}/x%d", i))
	}
	_, err = New(parse(t, texts...), false)
	require.NoError(t, err)
	_, err = New(parse(t, append(texts, "GET /a")...), false)
	require.ErrorContains(t, err, "1000 patterns")
	_, err = New(parse(t, append(texts[1:], "GET|POST /a")...), false)
	require.ErrorContains(t, err, "1000 patterns")
}

// A look-up finds the same as a search of all patterns: the one that matches and is
// within all others that do.
func FuzzTable(f *testing.F) {
	f.Add("/a/{x}\nGET /a/b\n/*\nh/a/*\n*.h/{y}", "GET", "x.h", "/a/b")
	f.Add("/v1/users/{id}\n/v1/users/me\n/v1/*", "POST", "h", "/v1/users/me/x")
	f.Add("GET /{a}/{b}\nHEAD /{a}/c\n/x", "HEAD", "h", "/y/c")
	f.Fuzz(func(t *testing.T, texts, method, host, path string) {
		var patterns []Pattern
		for s := range strings.SplitSeq(texts, "\n") {
			if p, err := Parse(s); err == nil && len(patterns) < 20 {
				patterns = append(patterns, p)
			}
		}
		if path == "" || path[0] != '/' {
			path = "/" + path
		}
		path, host = Clean(path, SlashInSegment, false), Host(host)
		x, err := New(patterns, false)
		if err != nil {
			return
		}
		var found Found
		got := -1
		if x.Match(method, host, path, &found) {
			got = found.Pattern
		}
		best := -1
		for i := range patterns {
			if rankOf(&patterns[i], method, host, path) > 0 && (best < 0 || moreSpecific(&patterns[i], &patterns[best], method)) {
				best = i
			}
		}
		require.Equal(t, best, got, "%q %q %q %q", texts, method, host, path)
		if got < 0 {
			return
		}
		segments := strings.Split(path[1:], "/")
		n := 0
		for i, s := range patterns[got].path {
			if s.name != "" {
				require.Equal(t, segments[i], found.Param(n))
				n++
			}
		}
	})
}

// rankOf is 0 for a pattern that does not match, and else says how well its host does.
func rankOf(p *Pattern, method, host, path string) int {
	hasMethod := p.methods == nil
	for _, m := range p.methods {
		hasMethod = hasMethod || m == method || m == get && method == head
	}
	var segments []string
	if path != "/" {
		segments = strings.Split(path[1:], "/")
	}
	if !hasMethod || len(segments) < len(p.path) || len(segments) > len(p.path) && !p.rest {
		return 0
	}
	for i, s := range p.path {
		if s.name == "" && s.literal != segments[i] {
			return 0
		}
	}
	return hostRank(p, host)
}

func hostRank(p *Pattern, host string) int {
	switch {
	case p.host == "":
		return 1
	case !p.below && p.host == host:
		return 1000
	case p.below && strings.HasSuffix(host, "."+p.host) && len(host) > len(p.host)+1:
		return 2 + strings.Count(p.host, ".")
	}
	return 0
}

func moreSpecific(p, q *Pattern, method string) bool {
	a, b := *p, *q
	rank := func(x *Pattern) int {
		switch {
		case x.host == "":
			return 1
		case x.below:
			return 2 + strings.Count(x.host, ".")
		}
		return 1000
	}
	if rank(&a) != rank(&b) {
		return rank(&a) > rank(&b)
	}
	by := func(x *Pattern) string {
		best := ""
		for _, m := range x.methods {
			if m == method || m == get && method == head && best == "" {
				best = m
			}
		}
		return best
	}
	return compareMethods(by(&a), by(&b)).both(a.comparePaths(&b)) == within
}

func BenchmarkMatch(b *testing.B) {
	var texts []string
	for i := range 500 {
		texts = append(texts, fmt.Sprintf("GET api.example.com/v1/kind%d/{id}", i))
	}
	x := table(b, false, texts...)
	b.ReportAllocs()
	for b.Loop() {
		var f Found
		if !x.Match("GET", "api.example.com", Clean("/v1/kind77/8123", SlashInSegment, false), &f) {
			b.Fatal()
		}
	}
}
