package route

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSplit(t *testing.T) {
	for target, want := range map[string][2]string{
		"/a?b=c?d":        {"/a", "b=c?d"},
		"/a#b?c":          {"/a", ""},
		"/a?b#c":          {"/a", "b"},
		"http://h/a?b":    {"/a", "b"},
		"https://h:1":     {"/", ""},
		"http://h?b":      {"/", "b"},
		"//a/b":           {"//a/b", ""},
		"/a?u=http://h/x": {"/a", "u=http://h/x"},
		"/a/http://h/b":   {"/a/http://h/b", ""},
	} {
		path, query, ok := Split(target)
		require.True(t, ok, target)
		require.Equal(t, want, [2]string{path, query}, target)
	}
	for _, target := range []string{"", "*", "a/b", "h:443", "?a"} {
		_, _, ok := Split(target)
		require.False(t, ok, target)
	}
}

func TestClean(t *testing.T) {
	for path, want := range map[string]string{
		"/":                "/",
		"/a/b":             "/a/b",
		"/a/":              "/a",
		"//a///b//":        "/a/b",
		"/a/./b/.":         "/a/b",
		"/a/../b":          "/b",
		"/a/b/../../..":    "/",
		"/../../a":         "/a",
		"/x/%2e%2e/a":      "/a",
		"/x/.%2E/a":        "/a",
		"/%61%62":          "/ab",
		"/%2561":           "/%61",
		"/%zz/%1":          "/%zz/%1",
		"/a;x=1/b;":        "/a/b",
		"/a;/../b":         "/b",
		"/;x/a":            "/a",
		"/a%3bb":           "/a;b",
		"/a%2Fb":           "/a%2Fb",
		"/a%2f..%2fb/c":    "/a%2F..%2Fb/c",
		"/..a/...":         "/..a/...",
		"/A":               "/A",
		"/a\x00%00\xff%ff": "/a\x00\x00\xff\xff",
	} {
		require.Equal(t, want, Clean(path, SlashInSegment, false), path)
	}
	require.Equal(t, "/a/c/%c3", Clean("/A/b/..%2FC/%25C3", SlashSeparates, true))
	require.Equal(t, "/c", Clean("/a%2fb%2F..%2f../c", SlashSeparates, false))
	require.True(t, HasEncodedSlash("/a%2fb"))
	require.False(t, HasEncodedSlash("/a%252fb/c"))
}

func TestHost(t *testing.T) {
	for host, want := range map[string]string{
		"API.Example.com:8080": "api.example.com", "a.": "a", "a.:80": "a", "[::1]:80": "[::1]", "[::1]": "[::1]", "": "", ":": "",
		"a:8.x:80": "a", "a..:80": "a", "[::1]:8:80": "[::1]",
	} {
		require.Equal(t, want, Host(host), host)
		require.Equal(t, want, Host(want), host)
	}
}

// A clean path stays as it is and gets no longer. It has none of the other spellings,
// and means the same however it is written.
func FuzzClean(f *testing.F) {
	for _, s := range []string{"/a/b", "//a/../%2e%2e/%2Fb;c/d/", "/%zz%", "/a%2f..", "/A%41;x/"} {
		f.Add(s, false, false)
		f.Add(s, true, true)
	}
	f.Fuzz(func(t *testing.T, path string, separates, fold bool) {
		path = "/" + path
		slash := SlashInSegment
		if separates {
			slash = SlashSeparates
		}
		clean := Clean(path, slash, fold)
		require.LessOrEqual(t, len(clean), len(path))
		require.Equal(t, byte('/'), clean[0])
		if clean != "/" {
			for s := range strings.SplitSeq(clean[1:], "/") {
				require.NotContains(t, []string{"", ".", ".."}, s)
			}
		}
		var all strings.Builder // with each byte encoded but slashes
		for i := range len(clean) {
			if clean[i] == '/' || slash == SlashInSegment && strings.HasPrefix(clean[i:], "%2F") {
				all.WriteByte(clean[i])
				continue
			}
			const digits = "0123456789abcdef"
			all.WriteString("%" + string(digits[clean[i]>>4]) + string(digits[clean[i]&15]))
		}
		for _, other := range []string{path + "/", "/." + path, "/x/.." + path, "/x/%2e%2E" + path, strings.ReplaceAll(path, "/", "//")} {
			if !strings.HasSuffix(path, "%2") {
				require.Equal(t, clean, Clean(other, slash, fold), other)
			}
		}
		if !strings.Contains(clean, "%2F") {
			require.Equal(t, clean, Clean(all.String(), slash, fold))
		}
	})
}
