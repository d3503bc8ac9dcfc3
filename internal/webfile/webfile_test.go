package webfile

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
)

func get(f *File, method string, header ...string) *http.Response {
	r := httptest.NewRequest(method, "/", nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	f.ServeHTTP(w, r)
	return w.Result()
}

func body(t *testing.T, r io.Reader) string {
	t.Helper()
	text, err := io.ReadAll(r)
	require.NoError(t, err)
	return string(text)
}

func TestFile(t *testing.T) {
	f := New("a.html", []byte("<p>text"), "default-src 'none'")
	r := get(f, "GET")
	require.Equal(t, http.StatusOK, r.StatusCode)
	require.Equal(t, "<p>text", body(t, r.Body))
	require.Equal(t, "text/html; charset=utf-8", r.Header.Get("Content-Type"))
	require.Equal(t, "nosniff", r.Header.Get("X-Content-Type-Options"))
	require.Equal(t, "DENY", r.Header.Get("X-Frame-Options"))
	require.Equal(t, "no-referrer", r.Header.Get("Referrer-Policy"))
	require.Equal(t, "default-src 'none'", r.Header.Get("Content-Security-Policy"))
	require.Empty(t, r.Header.Get("Set-Cookie"))

	zipped := get(f, "GET", "Accept-Encoding", "br, gzip;q=0.8")
	require.Equal(t, "gzip", zipped.Header.Get("Content-Encoding"))
	z, err := gzip.NewReader(zipped.Body)
	require.NoError(t, err)
	require.Equal(t, "<p>text", body(t, z))
	require.NotEqual(t, r.Header.Get("Etag"), zipped.Header.Get("Etag"))
	require.Empty(t, get(f, "GET", "Accept-Encoding", "gzip;q=0.0, br").Header.Get("Content-Encoding"))

	same := get(f, "GET", "If-None-Match", r.Header.Get("Etag"))
	require.Equal(t, http.StatusNotModified, same.StatusCode)
	require.Empty(t, body(t, same.Body))
	require.Equal(t, http.StatusOK, get(New("a.html", []byte("other"), ""), "GET", "If-None-Match", r.Header.Get("Etag")).StatusCode)
	require.Empty(t, body(t, get(f, "HEAD").Body))
}
