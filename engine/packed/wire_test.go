package packed

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func kinds() []Kind { return []Kind{HashKind, SetKind, SortedSetKind, ListKind} }

// sample returns a value of a kind with n entries.
func sample(t testing.TB, kind Kind, n int) []byte {
	b := &memory{}
	h, s, z, l := NewHash(b), NewSet(b), NewSortedSet(b), NewList(b)
	for i := range n {
		e := fmt.Appendf(nil, "entry %d", i)
		var err error
		switch kind {
		case HashKind:
			_, err = h.Set(e, fmt.Append(nil, i))
		case SetKind:
			_, err = s.Add(e)
		case SortedSetKind:
			_, err = z.Put(e, float64(i%7))
		case ListKind:
			err = l.PushBack([][]byte{e})
		}
		require.NoError(t, err)
	}
	return b.v
}

// The wire form depends on contents and order only, whatever happened before.
func TestWireIsCanonical(t *testing.T) {
	for _, n := range []int{2, 63, 64, 200} {
		b := newMemory(uint64(n))
		h := NewHash(b)
		for i := range 3 * n {
			_, err := h.Set(text(i, 9), text(i, i%50))
			require.NoError(t, err)
		}
		for i := range 2 * n {
			require.True(t, h.Remove(text(i, 9)))
		}
		for i := range n {
			_, err := h.Set(text(2*n+i, 9), text(i, 3))
			require.NoError(t, err)
		}
		other := newMemory(0)
		h = NewHash(other)
		for i := range n {
			_, err := h.Set(text(2*n+i, 9), text(i, 3))
			require.NoError(t, err)
		}
		require.NotEqual(t, b.v, other.v)
		require.Equal(t, AppendWire(nil, b.v), AppendWire(nil, other.v))
	}
}

// Any damage to the wire is refused, or is the wire of another value.
func TestFromWireRefusesDamage(t *testing.T) {
	for _, kind := range kinds() {
		for _, n := range []int{1, 3, 63, 64, 100} {
			wire := AppendWire(nil, sample(t, kind, n))
			for _, other := range kinds() {
				_, err := FromWire(nil, other, wire)
				require.Equal(t, other == kind, err == nil)
			}
			for i := range wire {
				_, err := FromWire(nil, kind, wire[:i])
				require.ErrorIs(t, err, ErrDamaged, "cut at %d", i)
				for _, flip := range []byte{1, 0x80, 0xff} {
					bad := slices.Clone(wire)
					bad[i] ^= flip
					refusesOrReads(t, kind, bad)
				}
			}
			_, err := FromWire(nil, kind, append(slices.Clone(wire), 0))
			require.ErrorIs(t, err, ErrDamaged)
		}
	}
}

func refusesOrReads(t testing.TB, kind Kind, wire []byte) {
	v, err := FromWire(nil, kind, wire)
	if err != nil {
		require.ErrorIs(t, err, ErrDamaged)
		require.Empty(t, v)
		return
	}
	require.NoError(t, Check(kind, v))
	require.Equal(t, wire, AppendWire(nil, v))
}

func TestFromWireRefuses(t *testing.T) {
	score := func(f float64) string {
		b := make([]byte, scoreSize)
		putScore(b, 0, f)
		return string(b)
	}
	zset := string([]byte{byte(SortedSetKind)<<smallShift | 2})
	set := func(n int) string { return string([]byte{byte(SetKind)<<smallShift | byte(n)}) }
	for why, c := range map[string]struct {
		kind Kind
		wire string
	}{
		"a member twice":        {SetKind, set(2) + "\x01a\x01a"},
		"a long length":         {SetKind, set(1) + "\x81\x00a"},
		"no bytes":              {SetKind, ""},
		"fewer members":         {SetKind, set(2) + "\x01a"},
		"a member twice, apart": {SortedSetKind, zset + score(1) + "\x01a" + score(2) + "\x01a"},
		"scores out of order":   {SortedSetKind, zset + score(2) + "\x01a" + score(1) + "\x01b"},
		"members out of order":  {SortedSetKind, zset + score(0) + "\x01b" + score(math.Copysign(0, -1)) + "\x01a"},
		"a score that is none":  {SortedSetKind, zset + score(1) + "\x01b" + score(math.NaN()) + "\x01a"},
		"a large form, of few":  {SetKind, "\x0a\x01\x01a"},
		"an endless length":     {SetKind, set(1) + "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"},
		"elements beyond count": {ListKind, "\x0c\x01\x01a\x01b"},
		"no kind":               {0, "\x01\x01a"},
	} {
		_, err := FromWire(nil, c.kind, []byte(c.wire))
		require.ErrorIs(t, err, ErrDamaged, why)
	}
	good := zset + score(math.Inf(-1)) + "\x01b" + score(math.Inf(1)) + "\x01a"
	_, err := FromWire(nil, SortedSetKind, []byte(good))
	require.NoError(t, err)
	_, err = FromWire(nil, SetKind, make([]byte, MaxBytes+1))
	require.ErrorIs(t, err, ErrDamaged)
}

func FuzzFromWire(f *testing.F) {
	for _, kind := range kinds() {
		for _, n := range []int{1, 5, 70} {
			f.Add(byte(kind), AppendWire(nil, sample(f, kind, n)))
		}
	}
	f.Fuzz(func(t *testing.T, kind byte, wire []byte) {
		refusesOrReads(t, Kind(kind%5), wire)
	})
}

// Any bytes that Check accepts can be used.
func FuzzCheck(f *testing.F) {
	for _, kind := range kinds() {
		for _, n := range []int{0, 1, 5, 70} {
			if v := sample(f, kind, n); len(v) > 0 {
				f.Add(byte(kind), v)
			}
		}
	}
	f.Fuzz(func(t *testing.T, k byte, v []byte) {
		kind := Kind(k % 5)
		if Check(kind, v) != nil {
			return
		}
		wire := AppendWire(nil, v)
		refusesOrReads(t, kind, wire)
		b := newMemory(1)
		b.v = v
		work(t, kind, b)
	})
}

// work applies every operation to a value.
func work(t testing.TB, kind Kind, b *memory) {
	switch kind {
	case HashKind:
		h := NewHash(b)
		n := h.Len()
		h.Remove([]byte("entry 1"))
		for i := range 100 {
			_, err := h.Set(text(i, 0), nil)
			require.NoError(t, err)
		}
		require.GreaterOrEqual(t, h.Len(), n)
	case SetKind:
		s := NewSet(b)
		for i := range 100 {
			_, err := s.Add(text(i, 0))
			require.NoError(t, err)
		}
		s.Scan(1<<30, 5, func([]byte) {})
	case SortedSetKind:
		z := NewSortedSet(b)
		for i := range 100 {
			_, err := z.Put(text(i, 0), float64(i-50))
			require.NoError(t, err)
		}
		z.RemoveRange(0, z.Len()/2)
	case ListKind:
		l := NewList(b)
		require.NoError(t, l.PushFront([][]byte{text(1, 0)}))
		l.RemoveEqual(text(1, 0), -1)
	}
	checkValue(t, kind, b.v)
}

// Damage to the value itself is found out, or does no harm.
func TestCheckRefusesDamage(t *testing.T) {
	for _, kind := range kinds() {
		for _, n := range []int{3, 63, 64, 100} {
			v := sample(t, kind, n)
			require.NoError(t, Check(kind, v))
			for i := range v {
				for _, flip := range []byte{1, 0x20, 0x80, 0xff} {
					b := newMemory(1)
					b.v = slices.Clone(v)
					b.v[i] ^= flip
					if Check(kind, b.v) == nil && i%7 == 0 {
						work(t, kind, b)
					}
				}
			}
		}
	}
}

// The largest hostile wires take no longer than as large good ones.
func TestFromWireIsLinear(t *testing.T) {
	wire := append([]byte{wireLarge | byte(SetKind)}, appendLength(nil, MaxEntries)...)
	for i := range MaxEntries {
		wire = append(wire, 3, byte(i), byte(i>>8), 0)
	}
	begin := time.Now()
	_, err := FromWire(nil, SetKind, wire)
	require.NoError(t, err)
	copy(wire[len(wire)-4:], wire[4:8])
	_, err = FromWire(nil, SetKind, wire)
	require.ErrorIs(t, err, ErrDamaged)
	require.Less(t, time.Since(begin), 5*time.Second)
}

func TestEncoding(t *testing.T) {
	for _, c := range []struct {
		kind   Kind
		n      int
		expect string
	}{
		{HashKind, 1, "listpack"}, {HashKind, 512, "listpack"}, {HashKind, 513, "hashtable"},
		{SetKind, 1, "hashtable"}, {SortedSetKind, 128, "listpack"}, {SortedSetKind, 129, "skiplist"},
		{ListKind, 1, "quicklist"},
	} {
		require.Equal(t, c.expect, Encoding(sample(t, c.kind, c.n)))
	}
	b := &memory{}
	s := NewSet(b)
	for i := range 512 {
		_, err := s.Add(fmt.Append(nil, i-100))
		require.NoError(t, err)
	}
	require.Equal(t, "intset", Encoding(b.v))
	_, err := s.Add([]byte("007"))
	require.NoError(t, err)
	require.Equal(t, "hashtable", Encoding(b.v))
	h := NewHash(&memory{})
	_, err = h.Set([]byte("f"), make([]byte, 65))
	require.NoError(t, err)
	require.Equal(t, "hashtable", Encoding(h.c.v))
}
