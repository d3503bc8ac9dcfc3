package packed

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// hashModel is what a hash must be: fields in the order of their adding.
type hashModel struct {
	fields []string
	values map[string]string
}

func (m *hashModel) set(f, v string) bool {
	_, ok := m.values[f]
	if m.values[f] = v; !ok {
		m.fields = append(m.fields, f)
	}
	return !ok
}

func (m *hashModel) remove(f string) bool {
	if _, ok := m.values[f]; !ok {
		return false
	}
	delete(m.values, f)
	m.fields = slices.Delete(m.fields, slices.Index(m.fields, f), slices.Index(m.fields, f)+1)
	return true
}

func checkHash(t testing.TB, b Buffer, m *hashModel) {
	h := NewHash(b)
	var fields []string
	for f, v := range h.All() {
		fields = append(fields, string(f))
		require.Equal(t, m.values[string(f)], string(v))
	}
	require.True(t, slices.Equal(m.fields, fields))
	checkValue(t, HashKind, b.Bytes())
}

// runHash runs a script on a hash and its model, with universe different fields. It
// checks everything every each steps.
func runHash(t testing.TB, s script, b *memory, universe, each int) {
	m := &hashModel{values: map[string]string{}}
	for step := 0; s.more(); step++ {
		h := NewHash(b)
		op, f, v := s.byte(), text(s.number(universe), 0), text(s.byte(), s.size())
		if s.byte()%8 == 0 {
			b.unchanged(t, func() error {
				_, err := h.Set(f, append(v, "longer than it was"...))
				if err == nil {
					m.set(string(f), string(v)+"longer than it was")
				}
				return err
			})
			h = NewHash(b)
		}
		switch {
		case op < 120:
			added, err := h.Set(f, v)
			require.NoError(t, err)
			require.Equal(t, m.set(string(f), string(v)), added)
		case op < 150:
			var pairs [][]byte
			for range s.several(12) {
				pairs = append(pairs, text(s.number(universe), 0), text(s.byte(), s.size()))
			}
			do := func() error {
				added, err := h.SetAll(pairs)
				if err != nil {
					return err
				}
				want := 0
				for i := 0; i < len(pairs); i += 2 {
					if m.set(string(pairs[i]), string(pairs[i+1])) {
						want++
					}
				}
				require.Equal(t, want, added)
				return nil
			}
			if op%2 == 1 || b.unchanged(t, do) {
				h = NewHash(b)
				require.NoError(t, do())
			}
		case op < 230:
			require.Equal(t, m.remove(string(f)), h.Remove(f))
		case op < 240:
			for range s.byte() % 200 {
				if len(m.fields) > 0 {
					f := m.fields[s.number(len(m.fields))]
					require.True(t, h.Remove([]byte(f)))
					m.remove(f)
				}
			}
		case h.Len() > 0:
			f, v := h.Random(rand.New(rand.NewPCG(uint64(op), 1)).Uint64)
			require.Equal(t, m.values[string(f)], string(v))
			n := 0
			for f, v := range h.Sample(op%32, rand.Uint64) {
				require.Equal(t, m.values[string(f)], string(v))
				n++
			}
			require.Equal(t, min(op%32, h.Len()), n)
		}
		require.Equal(t, len(m.fields), h.Len())
		require.Equal(t, len(m.fields), Len(b.Bytes()))
		value, ok := h.Get(f)
		want, there := m.values[string(f)]
		require.Equal(t, there, ok)
		require.Equal(t, want, string(value))
		if step%each == 0 {
			checkHash(t, b, m)
		}
	}
	checkHash(t, b, m)
}

func TestHashModel(t *testing.T) {
	for _, universe := range []int{1, 3, 60, 80, 150, 1000} {
		for seed := range uint64(6) {
			runHash(t, randomScript(seed, 20_000), newMemory(seed), universe, 1+universe/4)
		}
	}
}

func FuzzHash(f *testing.F) {
	f.Add([]byte("0123456789"), uint16(100))
	for seed := range uint64(4) {
		f.Add([]byte(randomScript(seed, 1000)), uint16(70))
	}
	f.Fuzz(func(t *testing.T, s []byte, universe uint16) {
		runHash(t, s, newMemory(1), 1+int(universe), 1)
	})
}

// A hash of two fields, as a token bucket in Lua keeps it, takes its bytes, a
// length for each, and one more.
func TestTokenBucketHashIsSmall(t *testing.T) {
	b := &memory{}
	h := NewHash(b)
	_, err := h.SetAll([][]byte{[]byte("tokens"), []byte("9.5"), []byte("last"), []byte("1700000000.123")})
	require.NoError(t, err)
	require.Len(t, b.v, len("tokens")+len("9.5")+len("last")+len("1700000000.123")+4+1)
	require.Equal(t, b.v, AppendWire(nil, b.v))
	// Values that keep their length change in place.
	grown := b.grown
	_, err = h.SetAll([][]byte{[]byte("tokens"), []byte("8.5"), []byte("last"), []byte("1700000001.456")})
	require.NoError(t, err)
	require.Equal(t, grown, b.grown)
}

func fill(t testing.TB, b Buffer, n int) {
	h := NewHash(b)
	for i := range n {
		_, err := h.Set(fmt.Appendf(nil, "f%d", i), fmt.Appendf(nil, "%d", i))
		require.NoError(t, err)
	}
}

func TestHashToItsBounds(t *testing.T) {
	b := &memory{}
	fill(t, b, MaxEntries)
	h := NewHash(b)
	require.Equal(t, MaxEntries, h.Len())
	checkValue(t, HashKind, b.v)
	before := slices.Clone(b.v)
	_, err := h.Set([]byte("one more"), nil)
	require.ErrorIs(t, err, ErrTooManyEntries)
	_, err = h.SetAll([][]byte{[]byte("f1"), []byte("x"), []byte("one more"), nil})
	require.ErrorIs(t, err, ErrTooManyEntries)
	require.Equal(t, before, b.v)
	_, err = h.Set([]byte("f1"), []byte("other"))
	require.NoError(t, err)
	i := 0
	for f := range h.All() {
		if string(f) != fmt.Sprintf("f%d", i) {
			t.Fatalf("%s at %d", f, i)
		}
		i++
	}
	for i := range MaxEntries {
		require.True(t, h.Remove(fmt.Appendf(nil, "f%d", i)))
	}
	require.Equal(t, 0, h.Len())
	require.Len(t, b.v, 1)
}

func TestHashOfLargeValues(t *testing.T) {
	for _, fields := range []int{2, 100} {
		b := newMemory(1)
		h := NewHash(b)
		m := &hashModel{values: map[string]string{}}
		for i := range 300 {
			f, v := fmt.Sprintf("f%d", i%fields), string(make([]byte, MaxBytes/fields*(i%4+1)/4-24))
			before := AppendWire(nil, b.v)
			if _, err := h.Set([]byte(f), []byte(v)); err != nil {
				require.ErrorIs(t, err, ErrTooLarge)
				require.Equal(t, before, AppendWire(nil, b.v))
				continue
			}
			m.set(f, v)
		}
		checkHash(t, b, m)
		require.Greater(t, len(b.v), MaxBytes/2)
		_, err := h.Set([]byte("f0"), make([]byte, MaxBytes))
		require.ErrorIs(t, err, ErrTooLarge)
		_, err = h.SetAll([][]byte{[]byte("f0"), make([]byte, MaxBytes), []byte("f1"), make([]byte, MaxBytes)})
		require.ErrorIs(t, err, ErrTooLarge)
		checkHash(t, b, m)
	}
}
