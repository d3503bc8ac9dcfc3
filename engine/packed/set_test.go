package packed

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// runSet runs a script on a set and its model, members in the order of adding.
func runSet(t testing.TB, s script, b *memory, universe, each int) {
	var model []string
	check := func() {
		set := NewSet(b)
		var members []string
		for m := range set.All() {
			members = append(members, string(m))
		}
		require.True(t, slices.Equal(model, members))
		checkValue(t, SetKind, b.v)
	}
	for step := 0; s.more(); step++ {
		set := NewSet(b)
		op, m := s.byte(), text(s.number(universe), s.size())
		if op%8 == 0 && b.unchanged(t, func() error { _, err := set.Add(m); return err }) {
			set = NewSet(b)
		} else if op%8 == 0 && !slices.Contains(model, string(m)) {
			model = append(model, string(m)) // there was room
		}
		i := slices.Index(model, string(m))
		require.Equal(t, i >= 0, set.Has(m))
		switch {
		case op < 100:
			added, err := set.Add(m)
			require.NoError(t, err)
			require.Equal(t, i < 0, added)
			if added {
				model = append(model, string(m))
			}
		case op < 140:
			var members [][]byte
			for range s.several(20) {
				members = append(members, text(s.number(universe), s.size()))
			}
			do := func() error {
				added, err := set.AddAll(members)
				if err != nil {
					return err
				}
				for _, m := range members {
					if !slices.Contains(model, string(m)) {
						model = append(model, string(m))
						added--
					}
				}
				require.Zero(t, added)
				return nil
			}
			if op%2 == 1 || b.unchanged(t, do) {
				set = NewSet(b)
				require.NoError(t, do())
			}
		case op < 180:
			require.Equal(t, i >= 0, set.Remove(m))
			if i >= 0 {
				model = slices.Delete(model, i, i+1)
			}
		case op < 230:
			for range s.several(30) {
				if set.Len() == 0 {
					break
				}
				m := slices.Clone(set.Random(rand.New(rand.NewPCG(uint64(op), uint64(step))).Uint64))
				require.True(t, set.Remove(m))
				i := slices.Index(model, string(m))
				model = slices.Delete(model, i, i+1)
			}
		default:
			last := -1
			n := 0
			for m := range set.Sample(op%64, rand.Uint64) {
				i := slices.Index(model, string(m))
				require.Greater(t, i, last)
				last, n = i, n+1
			}
			require.Equal(t, min(op%64, set.Len()), n)
		}
		require.Equal(t, len(model), set.Len())
		if step%each == 0 {
			check()
		}
	}
	check()
}

func TestSetModel(t *testing.T) {
	for _, universe := range []int{1, 3, 60, 80, 150, 1000} {
		for seed := range uint64(4) {
			runSet(t, randomScript(seed, 20_000), newMemory(seed), universe, 1+universe/4)
		}
	}
}

func FuzzSet(f *testing.F) {
	for seed := range uint64(4) {
		f.Add([]byte(randomScript(seed, 1000)), uint16(70))
	}
	f.Fuzz(func(t *testing.T, s []byte, universe uint16) {
		runSet(t, s, newMemory(1), 1+int(universe), 1)
	})
}

// Random and Sample have no favourites.
func TestRandomIsEven(t *testing.T) {
	for _, n := range []int{7, 100} {
		b := &memory{}
		s := NewSet(b)
		for i := range 2 * n {
			_, err := s.Add(text(i, 4))
			require.NoError(t, err)
		}
		for i := range n {
			s.Remove(text(2*i, 4))
		}
		next := rand.New(rand.NewPCG(1, 1)).Uint64
		one, some := map[string]int{}, map[string]int{}
		const each = 2000
		for range each * n {
			one[string(s.Random(next))]++
		}
		for range each * n / 3 {
			for m := range s.Sample(3, next) {
				some[string(m)]++
			}
		}
		require.Len(t, one, n)
		for m := range s.All() {
			require.InDelta(t, each, one[string(m)], 300)
			require.InDelta(t, each, some[string(m)], 300)
		}
	}
}

// A member that exists from the first call of Scan to the last is visited once, while the
// set grows and shrinks between small and large.
func TestScanMeetsWhatStays(t *testing.T) {
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 3))
		b := newMemory(seed)
		s := NewSet(b)
		stay := r.IntN(200)
		for i := range stay {
			_, err := s.Add(text(i, 2))
			require.NoError(t, err)
		}
		seen := map[string]int{}
		others := 1000 * (1 + r.IntN(20))
		for cursor, calls := uint64(0), 0; ; calls++ {
			s := NewSet(b)
			visited := 0
			next := s.Scan(cursor, 10, func(m []byte) { seen[string(m)]++; visited++ })
			require.True(t, next == 0 || visited >= 10)
			if cursor = next; cursor == 0 {
				break
			}
			for range r.IntN(others / 10) {
				if m := text(1000+r.IntN(others), 2); calls/4%2 == 0 {
					_, err := s.Add(m)
					require.NoError(t, err)
				} else {
					s.Remove(m)
				}
			}
		}
		for i := range stay {
			require.Equal(t, 1, seen[string(text(i, 2))])
		}
	}
}

// Scan visits all members, also those that collisions have displaced over the table's
// end. Some of so many full tables have them.
func TestScanMeetsAll(t *testing.T) {
	for i := range 100 {
		s := NewSet(&memory{})
		for j := range 96 {
			_, err := s.Add(text(i*96+j, 4))
			require.NoError(t, err)
		}
		seen := map[string]int{}
		cursor := s.Scan(0, 7, func(m []byte) { seen[string(m)]++ })
		for cursor != 0 {
			cursor = s.Scan(cursor, 7, func(m []byte) { seen[string(m)]++ })
		}
		require.Len(t, seen, 96)
		for m, n := range seen {
			require.Equal(t, 1, n, m)
		}
		require.Zero(t, s.Scan(1<<32, 7, func([]byte) { t.Fatal("beyond all hashes") }))
	}
	h, z := NewHash(&memory{}), NewSortedSet(&memory{})
	_, err := h.Set([]byte("f"), []byte("v"))
	require.NoError(t, err)
	_, err = z.Put([]byte("m"), 3)
	require.NoError(t, err)
	require.Zero(t, h.Scan(0, 1, func(f, v []byte) { require.Equal(t, "fv", string(f)+string(v)) }))
	require.Zero(t, z.Scan(0, 1, func(m []byte, score float64) { require.Equal(t, 3.0, score) }))
}
