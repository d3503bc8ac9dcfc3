package console

import (
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// maxBytes bounds what a browser loads for the whole console, compressed.
const maxBytes = 60_000

func request(t *testing.T, h http.Handler, method, path string, header ...string) *http.Response {
	t.Helper()
	r := httptest.NewRequest(method, path, nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

func body(t *testing.T, r *http.Response) string {
	t.Helper()
	text, err := io.ReadAll(r.Body)
	require.NoError(t, err)
	return string(text)
}

func registered() *http.ServeMux {
	mux := http.NewServeMux()
	Register(mux)
	return mux
}

func TestConsoleIsSmall(t *testing.T) {
	all := 0
	for at, f := range files() {
		require.NotEmpty(t, f.Kind(), at)
		all += f.Size()
	}
	require.Less(t, all, maxBytes)
	t.Logf("%d bytes compressed", all)
}

func TestFilesAreServed(t *testing.T) {
	mux := registered()
	for at, f := range files() {
		r := request(t, mux, "GET", at)
		require.Equal(t, http.StatusOK, r.StatusCode, at)
		text, err := io.ReadAll(f.Open())
		require.NoError(t, err)
		require.Equal(t, string(text), body(t, r))
		require.Contains(t, r.Header.Get("Content-Security-Policy"), "default-src 'none'")
		require.NotContains(t, r.Header.Get("Content-Security-Policy"), "unsafe")
		require.Equal(t, http.StatusMethodNotAllowed, request(t, mux, "POST", at).StatusCode)
	}
	for _, at := range []string{"/index.html", "/console/", "/console/no.js", "/console/index.html", "/consoles"} {
		require.Equal(t, http.StatusNotFound, request(t, mux, "GET", at).StatusCode, at)
	}
}

// The pages have no inline code, no markup made from text, no storage, and no address of
// another origin. The browser refuses most of this too, but only where a test happens to run it.
func TestSourcesAreStrict(t *testing.T) {
	never := regexp.MustCompile(`innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|localStorage|sessionStorage|indexedDB|document\.cookie|console\.(log|debug|info|warn|error)`)
	elsewhere := regexp.MustCompile(`(https?:)?//[a-z0-9]+\.[a-z]`)
	for at, f := range files() {
		read, err := io.ReadAll(f.Open())
		require.NoError(t, err)
		text := strings.ReplaceAll(string(read), "http://www.w3.org/2000/svg", "")
		require.Empty(t, never.FindString(text), at)
		if strings.HasSuffix(at, ".js") || at == "/" {
			text = strings.ReplaceAll(strings.ReplaceAll(text, "https://api.example.com", ""), "http://127.0.0.1", "")
			require.Empty(t, elsewhere.FindString(text), at)
		}
		if at == "/" {
			require.NotRegexp(t, `<script>|<style|\son[a-z]+=|\sstyle=`, text)
		}
	}
}
