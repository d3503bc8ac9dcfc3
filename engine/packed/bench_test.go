package packed

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
)

// room is a Buffer that grows as the table's records do: by their own length.
type room struct{ v []byte }

func (b *room) Bytes() []byte { return b.v }
func (b *room) Edit() []byte  { return b.v }
func (b *room) Splice(at, del, ins int) ([]byte, error) {
	v := make([]byte, len(b.v)-del+ins)
	copy(v, b.v[:at])
	copy(v[at+ins:], b.v[at+del:])
	b.v = v
	return v, nil
}

var sizes = []int{2, 60, 1000, 65_536}

func member(b []byte, i int) []byte {
	return strconv.AppendInt(append(b[:0], "request:"...), int64(1_000_000_000_00+i), 10)
}

// BenchmarkLog is a sliding log: a member more at the end, those before the
// window away at the front.
func BenchmarkLog(b *testing.B) {
	for _, n := range sizes[:3] {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			buf := &room{}
			var m []byte
			b.ReportAllocs()
			for i := range b.N + n {
				if i == n {
					b.ResetTimer()
				}
				z := NewSortedSet(buf)
				m = member(m, i)
				if _, err := z.Put(m, float64(i)); err != nil {
					b.Fatal(err)
				}
				z = NewSortedSet(buf)
				z.RemoveRange(0, z.Below(float64(i-n), true))
			}
			b.ReportMetric(float64(len(buf.v))/float64(n), "bytes/entry")
		})
	}
}

func zset(b *testing.B, n int) *room {
	buf := &room{}
	z := NewSortedSet(buf)
	for i := range n {
		if _, err := z.Put(fmt.Appendf(nil, "m%d", i), float64(i)); err != nil {
			b.Fatal(err)
		}
	}
	return buf
}

func BenchmarkSortedSet(b *testing.B) {
	for _, n := range sizes {
		buf := zset(b, n)
		keys := make([][]byte, n)
		for i, j := range rand.Perm(n) {
			keys[i] = fmt.Appendf(nil, "m%d", j)
		}
		run := func(name string, do func(z *SortedSet, i int)) {
			b.Run(fmt.Sprint(name, "/", n), func(b *testing.B) {
				b.ReportAllocs()
				for i := range b.N {
					z := NewSortedSet(buf)
					do(&z, i%n)
				}
			})
		}
		run("Score", func(z *SortedSet, i int) { z.Score(keys[i]) })
		run("Rank", func(z *SortedSet, i int) { z.Rank(keys[i]) })
		run("Put", func(z *SortedSet, i int) {
			if _, err := z.Put(keys[i], float64(rand.IntN(n))); err != nil {
				b.Fatal(err)
			}
		})
		run("RemovePut", func(z *SortedSet, i int) {
			z.Remove(keys[i])
			if _, err := z.Put(keys[i], float64(rand.IntN(n))); err != nil {
				b.Fatal(err)
			}
		})
		run("Range10", func(z *SortedSet, i int) {
			for m := range z.Range(0, min(n, 10)) {
				_ = m
			}
		})
	}
}

func BenchmarkHash(b *testing.B) {
	for _, n := range sizes {
		buf := &room{}
		h := NewHash(buf)
		keys := make([][]byte, n)
		for i, j := range rand.Perm(n) {
			keys[i] = fmt.Appendf(nil, "f%d", j)
			if _, err := h.Set(keys[i], []byte("1")); err != nil {
				b.Fatal(err)
			}
		}
		run := func(name string, do func(h *Hash, i int)) {
			b.Run(fmt.Sprint(name, "/", n), func(b *testing.B) {
				b.ReportAllocs()
				for i := range b.N {
					h := NewHash(buf)
					do(&h, i%n)
				}
			})
		}
		run("Get", func(h *Hash, i int) { h.Get(keys[i]) })
		values := [][]byte{[]byte("1"), []byte("22"), []byte("333"), []byte("4444")}
		run("Set", func(h *Hash, i int) {
			if _, err := h.Set(keys[i], values[rand.IntN(4)]); err != nil {
				b.Fatal(err)
			}
		})
		run("RemoveSet", func(h *Hash, i int) {
			h.Remove(keys[i])
			if _, err := h.Set(keys[i], values[0]); err != nil {
				b.Fatal(err)
			}
		})
	}
}

// BenchmarkBucket is what a token bucket in Lua does to its hash.
func BenchmarkBucket(b *testing.B) {
	buf := &room{}
	tokens, last := []byte("tokens"), []byte("last")
	pairs := [][]byte{tokens, nil, last, nil}
	b.ReportAllocs()
	for i := range b.N {
		h := NewHash(buf)
		h.Get(tokens)
		h.Get(last)
		pairs[1] = strconv.AppendInt(pairs[1][:0], int64(i%1000), 10)
		pairs[3] = strconv.AppendInt(pairs[3][:0], int64(1_700_000_000+i), 10)
		if _, err := h.SetAll(pairs); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkWindow is a list that is pushed at the front and trimmed at the end.
func BenchmarkWindow(b *testing.B) {
	for _, n := range sizes[:3] {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			buf := &room{}
			one := [][]byte{nil}
			b.ReportAllocs()
			for i := range b.N + n {
				if i == n {
					b.ResetTimer()
				}
				l := NewList(buf)
				one[0] = member(one[0], i)
				if err := l.PushFront(one); err != nil {
					b.Fatal(err)
				}
				l = NewList(buf)
				l.RemoveRange(min(n, l.Len()), l.Len())
			}
		})
	}
}

func BenchmarkWire(b *testing.B) {
	for _, n := range sizes {
		buf := zset(b, n)
		wire := AppendWire(nil, buf.v)
		b.Run(fmt.Sprint("Append/", n), func(b *testing.B) {
			b.SetBytes(int64(len(wire)))
			for range b.N {
				wire = AppendWire(wire[:0], buf.v)
			}
		})
		b.Run(fmt.Sprint("From/", n), func(b *testing.B) {
			b.SetBytes(int64(len(wire)))
			var v []byte
			for range b.N {
				v, _ = FromWire(v[:0], SortedSetKind, wire)
			}
		})
	}
}

// BenchmarkFill makes a sorted set of members in random order.
func BenchmarkFill(b *testing.B) {
	for _, n := range sizes[2:] {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			r := rand.New(rand.NewPCG(1, 1))
			members := make([][]byte, n)
			for i := range members {
				members[i] = text(i, 0)
			}
			for range b.N {
				z := NewSortedSet(&room{})
				if err := z.Reserve(n, 4*n); err != nil {
					b.Fatal(err)
				}
				for _, m := range members {
					if _, err := z.Put(m, r.Float64()); err != nil {
						b.Fatal(err)
					}
				}
				z.Settle()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/member")
		})
	}
}
