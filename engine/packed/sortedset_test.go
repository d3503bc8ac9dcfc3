package packed

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sort"
	"testing"

	"github.com/stretchr/testify/require"
)

type scored struct {
	member string
	score  float64
}

func (a scored) compare(b scored) int {
	// cmp.Compare takes 0 and -0 for equal too.
	return cmp.Or(cmp.Compare(a.score, b.score), cmp.Compare(a.member, b.member))
}

// zsetModel is what a sorted set must be: a sorted slice.
type zsetModel []scored

func (m zsetModel) find(member string) int {
	return slices.IndexFunc(m, func(s scored) bool { return s.member == member })
}

func (m *zsetModel) put(member string, score float64) bool {
	i := m.find(member)
	s := scored{member, score}
	if i >= 0 {
		if (*m)[i].score == score {
			return false
		}
		*m = slices.Delete(*m, i, i+1)
	}
	at, _ := slices.BinarySearchFunc(*m, s, scored.compare)
	*m = slices.Insert(*m, at, s)
	return i < 0
}

// same compares scores by their bits.
func same(a, b scored) bool {
	return a.member == b.member && math.Float64bits(a.score) == math.Float64bits(b.score)
}

func checkZset(t testing.TB, b Buffer, m zsetModel) {
	z := NewSortedSet(b)
	var all, back zsetModel
	for member, score := range z.Range(0, z.Len()) {
		all = append(all, scored{string(member), score})
	}
	for member, score := range z.Backward(0, z.Len()) {
		back = append(back, scored{string(member), score})
	}
	slices.Reverse(back)
	require.True(t, slices.EqualFunc(m, all, same), "%v %v", m, all)
	require.True(t, slices.EqualFunc(m, back, same), "%v %v", m, back)
	checkValue(t, SortedSetKind, b.Bytes())
}

// score returns scores of which many are equal, and the extreme ones.
func (s *script) score(step int) float64 {
	extreme := [...]float64{0, math.Copysign(0, -1), math.Inf(1), math.Inf(-1), math.MaxFloat64, -math.SmallestNonzeroFloat64}
	switch n := s.byte(); {
	case n < 120:
		return float64(step)
	case n < 200:
		return float64(s.byte() % 8)
	case n < 230:
		return float64(s.byte())/7 - 10
	default:
		return extreme[n%len(extreme)]
	}
}

func runZset(t testing.TB, s script, b *memory, universe, each int) {
	var m zsetModel
	for step := 0; s.more(); step++ {
		z := NewSortedSet(b)
		op, member, score := s.byte(), text(s.number(universe), s.size()), s.score(step)
		if op%8 == 0 && !b.unchanged(t, func() error { _, err := z.Put(member, score); return err }) {
			m.put(string(member), score)
		}
		z = NewSortedSet(b)
		_, err := z.Put(member, math.NaN())
		require.ErrorIs(t, err, ErrNaN)
		switch {
		case op < 130:
			added, err := z.Put(member, score)
			require.NoError(t, err)
			require.Equal(t, m.put(string(member), score), added)
		case op < 160:
			if s.byte()%4 == 0 {
				z.RemoveRange(0, z.Len())
				m = nil
			}
			n := s.several(20)
			var members [][]byte
			size := 0
			for range n {
				members = append(members, text(s.number(universe), s.size()))
				size += len(members[len(members)-1])
			}
			if b.unchanged(t, func() error { return z.Reserve(n, size) }) {
				z = NewSortedSet(b)
				require.NoError(t, z.Reserve(n, size))
			}
			b.fail = true
			for _, member := range members {
				score := s.score(step)
				added, err := z.Put(member, score)
				require.NoError(t, err)
				require.Equal(t, m.put(string(member), score), added)
			}
			b.fail = false
			z.Settle()
		case op < 190:
			i := m.find(string(member))
			require.Equal(t, i >= 0, z.Remove(member))
			if i >= 0 {
				m = slices.Delete(m, i, i+1)
			}
		case op < 220:
			// A log's front, a pop of the greatest, or anything between.
			from := 0
			to := min(s.byte()%32, len(m))
			if op%4 == 1 {
				from, to = len(m)-to, len(m)
			} else if op%4 == 3 {
				from, to = 0, len(m)
			} else if op%4 == 2 && len(m) > 0 {
				from = s.number(len(m))
				to = from + s.number(len(m)-from+1)
			}
			z.RemoveRange(from, to)
			m = slices.Delete(m, from, to)
		default:
			from := s.number(len(m) + 1)
			to := from + s.number(len(m)-from+1)
			i := from
			for member, score := range z.Range(from, to) {
				require.True(t, same(m[i], scored{string(member), score}))
				i++
			}
			require.Equal(t, to, i)
			for member, score := range z.Backward(from, to) {
				i--
				require.True(t, same(m[i], scored{string(member), score}))
			}
			require.Equal(t, from, i)
		}
		require.Equal(t, len(m), z.Len())
		i := m.find(string(member))
		rank, got, ok := z.Rank(member)
		got2, ok2 := z.Score(member)
		require.Equal(t, i >= 0, ok)
		require.Equal(t, i >= 0, ok2)
		if ok {
			require.Equal(t, i, rank)
			require.True(t, same(m[i], scored{string(member), got}))
			require.True(t, same(m[i], scored{string(member), got2}))
			at, got := z.At(rank)
			require.True(t, same(m[i], scored{string(at), got}))
		}
		require.Equal(t, sort.Search(len(m), func(i int) bool { return m[i].score >= score }), z.Below(score, false))
		require.Equal(t, sort.Search(len(m), func(i int) bool { return m[i].score > score }), z.Below(score, true))
		if step%each == 0 {
			checkZset(t, b, m)
		}
	}
	checkZset(t, b, m)
}

func TestSortedSetModel(t *testing.T) {
	for _, universe := range []int{1, 3, 60, 80, 150, 1000} {
		for seed := range uint64(4) {
			runZset(t, randomScript(seed, 20_000), newMemory(seed), universe, 1+universe/4)
		}
	}
}

func FuzzSortedSet(f *testing.F) {
	for seed := range uint64(4) {
		f.Add([]byte(randomScript(seed, 1000)), uint16(70))
	}
	f.Fuzz(func(t *testing.T, s []byte, universe uint16) {
		runZset(t, s, newMemory(1), 1+int(universe), 1)
	})
}

func TestBefore(t *testing.T) {
	for _, n := range []int{0, 1, 50, 500} {
		b := &memory{}
		z := NewSortedSet(b)
		var members []string
		for i := range n {
			members = append(members, string(text(3*i, 0)))
			_, err := z.Put(text(3*i, 0), 7)
			require.NoError(t, err)
		}
		slices.Sort(members)
		for i := range 3*n + 2 {
			at, ok := slices.BinarySearch(members, string(text(i, 0)))
			require.Equal(t, at, z.Before(text(i, 0), false))
			if ok {
				at++
			}
			require.Equal(t, at, z.Before(text(i, 0), true))
		}
	}
}

// A sliding log of n entries neither grows nor is written anew: its order and
// its heap only slide.
func TestSlidingLogStaysAsLarge(t *testing.T) {
	for _, n := range []int{40, 1000, 20_000} {
		b := &memory{}
		z := NewSortedSet(b)
		var m zsetModel
		grown, size := 0, 0
		for i := range 12 * n {
			_, err := z.Put(text(i, 20), float64(i))
			require.NoError(t, err)
			m = append(m, scored{string(text(i, 20)), float64(i)})
			if i >= n {
				z.RemoveRange(0, z.Below(float64(i-n), true))
				m = m[1:]
			}
			if i == 2*n {
				grown, size = b.grown, len(b.v)
			}
		}
		checkZset(t, b, m)
		if n > maxSmall {
			require.Equal(t, grown, b.grown)
			require.Equal(t, size, len(b.v))
			require.NotZero(t, z.c.get(atBias), "never written anew")
		}
	}
}

func TestSortedSetToItsBounds(t *testing.T) {
	b := &memory{}
	z := NewSortedSet(b)
	var m zsetModel
	r := rand.New(rand.NewPCG(1, 1))
	// 15 bytes each, and the wire's first four, are as many as there may be.
	for i := range MaxEntries {
		score := r.NormFloat64()
		_, err := z.Put(text(i, 5), score)
		require.NoError(t, err)
		m = append(m, scored{string(text(i, 5)), score})
	}
	slices.SortFunc(m, scored.compare)
	checkZset(t, b, m)
	before := AppendWire(nil, b.v)
	_, err := z.Put([]byte("one more"), 0)
	require.ErrorIs(t, err, ErrTooManyEntries)
	require.ErrorIs(t, z.Reserve(1, 8), ErrTooManyEntries)
	require.Equal(t, before, AppendWire(nil, b.v))
	for len(m) > 0 {
		from := r.IntN(len(m))
		to := min(len(m), from+r.IntN(4000))
		z.RemoveRange(from, to)
		m = slices.Delete(m, from, to)
		checkZset(t, b, m)
	}
	require.Len(t, b.v, 1)
	for i := range 100 {
		_, err = z.Put(text(i, 12_000), 0)
		if err != nil {
			require.ErrorIs(t, err, ErrTooLarge)
			require.Greater(t, i, 80)
			require.ErrorIs(t, z.Reserve(1, 12_000), ErrTooLarge)
			return
		}
	}
	t.Fatal("no bound")
}

// TestReservedSortedSetTakesItsFirstMember reserves a large form before there is
// anything in it.
func TestReservedSortedSetTakesItsFirstMember(t *testing.T) {
	const n = 2 * maxSmall
	b := &memory{}
	z := NewSortedSet(b)
	require.NoError(t, z.Reserve(n, 8*n))
	for i := range n {
		added, err := z.Put(fmt.Appendf(nil, "m%d", i), float64(-i))
		require.NoError(t, err)
		require.True(t, added)
	}
	z.Settle()
	require.Equal(t, n, z.Len())
	require.NoError(t, Check(SortedSetKind, b.Bytes()))
	first, score := z.At(0)
	require.Equal(t, fmt.Sprintf("m%d", n-1), string(first))
	require.Equal(t, float64(1-n), score)
}

// Members that are sorted at once have the same order as members added one by one. Some
// are new, some existed, some come twice.
func TestManyMembersAtOnce(t *testing.T) {
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 5))
		b, want := newMemory(seed), map[string]float64{}
		put := func(z *SortedSet) {
			member, score := text(r.IntN(6000), r.IntN(20)), float64(r.IntN(500))
			_, there := want[string(member)]
			added, err := z.Put(member, score)
			require.NoError(t, err)
			require.Equal(t, !there, added)
			want[string(member)] = score
			got, ok := z.Score(member)
			require.True(t, ok)
			require.Equal(t, score, got)
		}
		z := NewSortedSet(b)
		for range []int{0, 10, 500, 3000}[seed%4] {
			put(&z)
		}
		n := minBulk + r.IntN(2000)
		require.NoError(t, z.Reserve(n, 20*n))
		b.fail = true
		for range n {
			put(&z)
		}
		z.Settle()
		b.fail = false
		var m zsetModel
		for member, score := range want {
			m = append(m, scored{member, score})
		}
		slices.SortFunc(m, scored.compare)
		checkZset(t, b, m)
		z = NewSortedSet(b)
		for range 50 {
			put(&z)
		}
	}
}
