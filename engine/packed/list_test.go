package packed

import (
	"bytes"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func checkListModel(t testing.TB, b Buffer, m []string) {
	l := NewList(b)
	var all, back []string
	for i, e := range l.Range(0, l.Len()) {
		require.Equal(t, len(all), i)
		all = append(all, string(e))
	}
	for i, e := range l.Backward(0, l.Len()) {
		back = append(back, string(e))
		require.Equal(t, l.Len()-len(back), i)
	}
	slices.Reverse(back)
	require.True(t, slices.Equal(m, all))
	require.True(t, slices.Equal(m, back))
	checkValue(t, ListKind, b.Bytes())
}

func runList(t testing.TB, s script, b *memory, most, each int) {
	var m []string
	for step := 0; s.more(); step++ {
		op, e := s.byte(), text(s.byte()%16, s.size())
		var many [][]byte
		for range 1 + s.byte()%6 {
			many = append(many, text(s.byte()%16, s.size()))
		}
		index := 0
		if len(m) > 0 {
			index = s.number(len(m))
		}
		l := NewList(b)
		var do func() error
		switch {
		case op < 20:
			to := len(many) + s.number(len(m)+1)
			do = func() error {
				err := l.PushFrontTo(to, many)
				if err == nil {
					for _, e := range many {
						m = slices.Insert(m, 0, string(e))
					}
					m = m[:min(to, len(m))]
				}
				return err
			}
		case op < 60:
			do = func() error {
				err := l.PushFront(many)
				if err == nil {
					for _, e := range many {
						m = slices.Insert(m, 0, string(e))
					}
				}
				return err
			}
		case op < 120:
			do = func() error {
				err := l.PushBack(many)
				if err == nil {
					for _, e := range many {
						m = append(m, string(e))
					}
				}
				return err
			}
		case op < 135:
			do = func() error {
				err := l.Insert(index, e)
				if err == nil {
					m = slices.Insert(m, index, string(e))
				}
				return err
			}
		case op < 150 && len(m) > 0:
			do = func() error {
				err := l.Set(index, e)
				if err == nil {
					m[index] = string(e)
				}
				return err
			}
		case op < 200:
			from, to := 0, min(len(m), len(many))
			if op%3 == 1 {
				from, to = len(m)-to, len(m)
			} else if op%3 == 2 {
				from = index
				to = from + s.number(len(m)-from+1)
			}
			l.RemoveRange(from, to)
			m = slices.Delete(m, from, to)
		case op < 215:
			count := s.byte()%7 - 3
			want := 0
			match := func(v string) bool {
				if v == string(e) && (count == 0 || want < count || want < -count) {
					want++
					return true
				}
				return false
			}
			if count < 0 {
				slices.Reverse(m)
			}
			m = slices.DeleteFunc(m, match)
			if count < 0 {
				slices.Reverse(m)
			}
			require.Equal(t, want, l.RemoveEqual(e, count))
		case len(m) > 0:
			require.Equal(t, m[index], string(l.At(index)))
			i := index
			for at, e := range l.Range(index, len(m)) {
				require.Equal(t, i, at)
				require.Equal(t, m[i], string(e))
				if i++; i > index+5 {
					break
				}
			}
		}
		if do != nil && (op%2 == 1 || b.unchanged(t, do)) {
			l = NewList(b)
			require.NoError(t, do())
		}
		if len(m) > most {
			l = NewList(b)
			l.RemoveRange(most/2, len(m))
			m = m[:most/2]
		}
		l = NewList(b)
		require.Equal(t, len(m), l.Len())
		require.Equal(t, len(m), Len(b.v))
		if step%each == 0 {
			checkListModel(t, b, m)
		}
	}
	checkListModel(t, b, m)
}

func TestListModel(t *testing.T) {
	for _, most := range []int{1, 4, 20, 200, 2000} {
		for seed := range uint64(4) {
			runList(t, randomScript(seed, 30_000), newMemory(seed), most, 1+most/4)
		}
	}
}

func FuzzList(f *testing.F) {
	for seed := range uint64(4) {
		f.Add([]byte(randomScript(seed, 1000)), uint16(70))
	}
	f.Fuzz(func(t *testing.T, s []byte, most uint16) {
		runList(t, s, newMemory(1), 1+int(most), 1)
	})
}

func TestListToItsBounds(t *testing.T) {
	b := &memory{}
	l := NewList(b)
	many := make([][]byte, MaxElements)
	for i := range many {
		many[i] = []byte{byte(i)}
	}
	require.ErrorIs(t, l.PushBack(append(many, nil)), ErrTooManyEntries)
	require.Nil(t, b.v)
	require.NoError(t, l.PushFront(many))
	before := bytes.Clone(b.v)
	require.ErrorIs(t, l.PushBack(many[:1]), ErrTooManyEntries)
	require.ErrorIs(t, l.Insert(5, nil), ErrTooManyEntries)
	require.ErrorIs(t, l.Set(5, make([]byte, MaxBytes)), ErrTooLarge)
	require.Equal(t, before, b.v)
	require.Equal(t, string(many[0]), string(l.At(MaxElements-1)))
	checkValue(t, ListKind, b.v)
	l.RemoveRange(10, MaxElements)
	require.ErrorIs(t, l.PushBack([][]byte{make([]byte, MaxBytes)}), ErrTooLarge)
	require.ErrorIs(t, l.PushFront([][]byte{make([]byte, MaxBytes/2), make([]byte, MaxBytes/2)}), ErrTooLarge)
	require.NoError(t, l.PushFront([][]byte{make([]byte, MaxBytes/2)}))
	require.ErrorIs(t, l.PushFront([][]byte{make([]byte, MaxBytes/2)}), ErrTooLarge)
	require.Equal(t, 11, l.Len())
	checkValue(t, ListKind, b.v)
}

// A list that is pushed at one end and trimmed at the other, like a moving window, rarely
// moves its elements, and stays as large.
func TestListAsWindow(t *testing.T) {
	b := &memory{}
	l := NewList(b)
	var m []string
	most := 0
	for i := range 20_000 {
		require.NoError(t, l.PushFront([][]byte{text(i, 18)}))
		m = slices.Insert(m, 0, string(text(i, 18)))
		if l.Len() > 1000 {
			l.RemoveRange(1000, l.Len())
			m = m[:1000]
		}
		if i > 2000 {
			most = max(most, len(b.v))
		}
	}
	checkListModel(t, b, m)
	require.Less(t, most, 30_000) // 20 bytes each and a quarter, and a quarter of that
	require.Less(t, b.grown, 100)
}
