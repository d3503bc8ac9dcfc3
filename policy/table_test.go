package policy

import (
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// A table is a map that never changes: against Go's, over random edits, with a
// look back at every earlier table.
func TestTableIsAMap(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	type version struct {
		t    *table
		want map[string]entryValue
	}
	want := map[string]entryValue{}
	var current *table
	var versions []version
	for range 200 {
		e := current.edit(tableSeed)
		next := map[string]entryValue{}
		for k, v := range want {
			next[k] = v
		}
		for range 1 + r.IntN(20) {
			key := fmt.Sprintf("key%d", r.IntN(1500))
			if _, known := next[key]; r.IntN(3) == 0 {
				require.Equal(t, known, e.remove([]byte(key)))
				delete(next, key)
			} else {
				v := entryValue{r.IntN(10), int64(r.IntN(3)) * 100}
				require.Equal(t, !known, e.set([]byte(key), v))
				next[key] = v
			}
		}
		if r.IntN(20) == 0 { // all go, one by one
			for k := range next {
				require.True(t, e.remove([]byte(k)))
				delete(next, k)
			}
		}
		for r.IntN(10) == 0 && len(next) < 1200 { // many come
			key := fmt.Sprintf("key%d", r.IntN(1500))
			v := entryValue{index: r.IntN(10)}
			e.set([]byte(key), v)
			next[key] = v
		}
		current, want = e.table(), next
		versions = append(versions, version{current, next})
	}
	for n, v := range versions {
		if n%7 != 0 {
			continue // each is the base of later ones, which are looked at
		}
		if v.t == nil {
			require.Empty(t, v.want)
			continue
		}
		require.Equal(t, len(v.want), v.t.count)
		have := map[string]entryValue{}
		for k, x := range v.t.all() {
			have[string(k)] = x
		}
		require.Equal(t, v.want, have)
		for i := range 1500 {
			key := fmt.Appendf(nil, "key%d", i)
			x, known := v.want[string(key)]
			found := v.t.find(maphash.Bytes(tableSeed, key), key, 100)
			if !known || x.until == 100 {
				require.Negative(t, found)
			} else {
				require.Equal(t, x.index, found)
			}
		}
	}
}

func TestTableOfManyKeys(t *testing.T) {
	e := (*table)(nil).edit(tableSeed)
	const n = 100_000
	for i := range n {
		e.set(fmt.Appendf(nil, "@p:l;user=%d", i), entryValue{index: i % 7})
	}
	all := e.table()
	bytes := 0
	for _, p := range all.parts {
		bytes += cap(p.data) + 8*len(p.slots)
	}
	require.Less(t, bytes, 100*n)
	for i := range n {
		key := fmt.Appendf(nil, "@p:l;user=%d", i)
		require.Equal(t, i%7, all.find(maphash.Bytes(tableSeed, key), key, 0))
	}
	e = all.edit(tableSeed)
	for i := range n {
		require.True(t, e.remove(fmt.Appendf(nil, "@p:l;user=%d", i)))
	}
	require.Nil(t, e.table())
}

var tableSeed = maphash.MakeSeed()
