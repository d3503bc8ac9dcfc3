package askers_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/internal/askers"
)

// What a process has written is read again, but for a line that it was killed in.
func TestLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	w, err := askers.NewWriter(path)
	require.NoError(t, err)
	span := func(from int64) askers.Span { return askers.Span{From: from, To: from + 5} }
	w.Call(span(1), true, nil)
	w.Call(span(2), false, nil)
	w.Call(span(3), false, errors.New("away"))
	w.Return(span(4))
	first := askers.Grant{Span: span(5), Seq: 1, Held: 2, Need: 3, OK: true, Granted: 4, TTL: time.Second, Refill: 6, RefillTime: time.Minute}
	second := askers.Grant{Span: span(6), Seq: 2, Failed: true}
	w.Grant(second)
	w.Grant(first)
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = f.WriteString("a 7 1")
	require.NoError(t, err)
	require.NoError(t, f.Close())
	log, err := askers.Read(path)
	require.NoError(t, err)
	require.Equal(t, &askers.Log{
		Admitted: []askers.Span{span(1)}, Denied: []askers.Span{span(2)}, Errors: []askers.Span{span(3)},
		Returned: []askers.Span{span(4)}, Grants: []askers.Grant{first, second},
	}, log)
}

// A wave has as many calls as the rate says.
func TestWaves(t *testing.T) {
	c := askers.Config{Rate: 100, Wave: 2 * time.Second}
	quiet, lasts := c.RateAt(10 * int64(time.Second))
	require.Equal(t, 1500*time.Millisecond, lasts)
	loud, rest := c.RateAt(10*int64(time.Second) + int64(lasts))
	require.Equal(t, 500*time.Millisecond, rest)
	require.InDelta(t, 200, quiet*lasts.Seconds()+loud*rest.Seconds(), 1e-6)
	require.Equal(t, 10.0, quiet)
}
