package policy

import (
	"fmt"
	"hash/maphash"
	"maps"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// A directory is a map that never changes: against Go's, over random edits, with a
// look back at every earlier one.
func TestDirectoryIsAMap(t *testing.T) {
	type version struct {
		d    *directory[int]
		want map[string]*int
	}
	r := rand.New(rand.NewPCG(1, 2))
	versions := []version{{&directory[int]{seed: maphash.MakeSeed()}, map[string]*int{}}}
	for i := range 60 {
		last := versions[len(versions)-1]
		e, want := last.d.edit(), maps.Clone(last.want)
		for range 1 + r.IntN(200) {
			name := fmt.Sprintf("name%d", r.IntN(3000))
			if r.IntN(3) == 0 || i%20 == 19 {
				e.put(name, nil)
				delete(want, name)
			} else {
				v := r.IntN(1000)
				e.put(name, &v)
				want[name] = &v
			}
		}
		if i == 40 {
			for name := range want {
				e.put(name, nil)
			}
			clear(want)
		}
		versions = append(versions, version{e.next, want})
	}
	for _, v := range versions {
		require.Equal(t, len(v.want), v.d.count)
		require.Equal(t, v.want, maps.Collect(v.d.all()))
		for i := range 3000 {
			name := fmt.Sprintf("name%d", i)
			require.Same(t, v.want[name], v.d.get([]byte(name)))
			require.Same(t, v.want[name], v.d.named(name))
			hash := maphash.String(v.d.seed, name)
			v.d.seek(hash)
			found, value := v.d.first(hash)
			require.Same(t, v.want[name], value)
			if value != nil {
				require.Equal(t, name, found)
			}
		}
	}
}

// Names with the same hash are kept apart.
func TestDirectoryWithNamesOfOneHash(t *testing.T) {
	var d directory[int]
	const hash = 7 << 8
	one, other := 1, 2
	d.parts[d.part(hash)] = again([]titled[int]{{hash, "one", &one}, {hash, "other", &other}}, 4)
	require.Same(t, &one, d.find(hash, []byte("one")))
	require.Same(t, &other, d.find(hash, []byte("other")))
	require.Nil(t, d.find(hash, []byte("none")))
	_, first := d.first(hash)
	require.Same(t, &one, first)
}
