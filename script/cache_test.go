package script_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/script"
)

// The cache drops the script that was not used for longest. Scripts of EVAL and
// scripts of SCRIPT LOAD do not drive out each other.
func TestCacheMakesRoom(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine, and long under the race detector: make main runs it")
	}
	cache := script.NewCache(script.NewEnvironment("7.0.15"), noStore{})
	body := func(i int) []byte { return fmt.Appendf(nil, "return %d", i) }
	load := func(i int, keep bool) (dropped []string) {
		t.Helper()
		_, dropped, err := cache.Load(body(i), keep)
		require.NoError(t, err)
		return dropped
	}
	load(-1, true)
	load(0, false)
	gone := 0
	for i := range 20_000 {
		dropped := load(i, false)
		require.LessOrEqual(t, len(dropped), 64)
		gone += len(dropped)
		require.NotNil(t, cache.ByBody(body(0)))
	}
	require.Equal(t, 20_001, cache.Len()+gone)
	require.NotNil(t, cache.ByBody(body(-1)), "was loaded")
	require.NotNil(t, cache.ByBody(body(0)), "used all along")
	require.NotNil(t, cache.ByBody(body(19_999)))
	require.Nil(t, cache.ByBody(body(1)))
	for i := 100_000; i < 120_000; i++ {
		load(i, true)
		require.NotNil(t, cache.ByBody(body(-1)))
	}
	require.LessOrEqual(t, cache.Len(), 10_000)
	require.NotNil(t, cache.ByBody(body(19_999)), "came with EVAL")
	require.Nil(t, cache.ByBody(body(100_000)))
	load(19_999, true)
	for i := 20_000; i < 30_000; i++ {
		load(i, false)
	}
	require.NotNil(t, cache.ByBody(body(19_999)), "has come with SCRIPT LOAD since")
	cache.Flush()
	require.Zero(t, cache.Len())
	require.Zero(t, cache.Bytes())
	_, _, err := cache.Load([]byte("return '"+strings.Repeat("x", script.MaxBody)+"'"), false)
	require.ErrorIs(t, err, script.ErrTooLarge)
}

// Large scripts are bounded by the memory that they take, which is much for
// some small texts. The largest allowed one fits.
func TestCacheIsBoundedInBytes(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine, and long under the race detector: make main runs it")
	}
	cache := script.NewCache(script.NewEnvironment("7.0.15"), noStore{})
	for i := range 40 {
		_, _, err := cache.Load(fmt.Appendf(nil, "local f, n = type, %d %s", i, strings.Repeat("f()", 20_000)), i%2 == 0)
		require.NoError(t, err)
	}
	require.Greater(t, cache.Len(), 4)
	require.LessOrEqual(t, cache.Bytes(), 64<<20)
	largest := "local f = type " + strings.Repeat("f()", (script.MaxBody-20)/3)
	s, _, err := cache.Load([]byte(largest), false)
	require.NoError(t, err)
	require.NotNil(t, cache.ByBody([]byte(largest)))
	require.LessOrEqual(t, cache.Bytes(), 32<<20+s.Size())
}

// A full shelf of scripts in use makes room in bounded time.
func TestCacheMakesRoomAtOnce(t *testing.T) {
	cache := script.NewCache(script.NewEnvironment("7.0.15"), noStore{})
	for i := range 5000 {
		_, _, err := cache.Load(fmt.Appendf(nil, "return %d", i), true)
		require.NoError(t, err)
	}
	var took []time.Duration
	for i := 5000; i < 10_000; i++ {
		for n := range 5 {
			cache.ByBody(fmt.Appendf(nil, "return %d", i-1-n*100))
		}
		began := time.Now()
		_, _, err := cache.Load(fmt.Appendf(nil, "return %d", i), true)
		took = append(took, time.Since(began))
		require.NoError(t, err)
	}
	slices.Sort(took)
	require.Less(t, took[len(took)*99/100], 50*time.Millisecond)
}

// oneText is a store that another node has given a text by SCRIPT LOAD. It may
// look into the cache while it is asked, as the server's does.
type oneText struct {
	text  string
	cache *script.Cache
}

func (o *oneText) Kept() bool            { return true }
func (o *oneText) Generation() uint64    { return 1 }
func (o *oneText) Holds(sha string) bool { return sha == script.Digest([]byte(o.text)) }

func (o *oneText) Text(sha string) (string, bool, bool) {
	o.cache.Has(sha)
	is := o.Holds(sha)
	return o.text, is, is
}

// A script that was loaded on another node stays loaded when this one is sent
// its text.
func TestLoadedElsewhereStaysLoaded(t *testing.T) {
	store := &oneText{text: "return 1"}
	store.cache = script.NewCache(script.NewEnvironment("7.0.15"), store)
	s, _, err := store.cache.Load([]byte("return 1"), false)
	require.NoError(t, err)
	require.True(t, store.cache.Loaded(s))
	s, _, err = store.cache.Load([]byte("return 2"), false)
	require.NoError(t, err)
	require.False(t, store.cache.Loaded(s))
}

// To ask whether a text is known does not compile it. A long text is not
// compiled where there is no time for it.
func TestTextsOfOthersAreCompiledWhenTheyRun(t *testing.T) {
	store := &oneText{text: "return 1"}
	store.cache = script.NewCache(script.NewEnvironment("7.0.15"), store)
	sha := []byte(strings.ToUpper(script.Digest([]byte(store.text))))
	require.True(t, store.cache.Knows(sha))
	require.False(t, store.cache.Knows([]byte(script.Digest([]byte("return 2")))))
	require.Zero(t, store.cache.Len())
	s, long := store.cache.BySHA(sha, len(store.text)-1)
	require.Nil(t, s)
	require.True(t, long)
	s, long = store.cache.BySHA(sha, len(store.text))
	require.NotNil(t, s)
	require.False(t, long)
	require.Equal(t, 1, store.cache.Len())
}
