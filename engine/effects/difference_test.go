package effects

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/engine/packed"
)

// value is a buffer for a list.
type value struct{ b []byte }

func (v *value) Bytes() []byte { return v.b }
func (v *value) Edit() []byte  { return v.b }

func (v *value) Splice(at, del, ins int) ([]byte, error) {
	v.b = slices.Replace(v.b, at, at+del, make([]byte, ins)...)
	return v.b, nil
}

// listOf is the wire form of a list, whose elements are the pieces of a state.
func listOf(t *testing.T, elements [][]byte) []byte {
	var v value
	l := packed.NewList(&v)
	require.NoError(t, l.PushBack(elements))
	return packed.AppendWire(nil, v.Bytes())
}

// difference finds the difference of two lists, and reads it.
func difference(t *testing.T, d *differ, old, changed [][]byte, most int) (size int, ok bool) {
	d.old, d.new = listOf(t, old), listOf(t, changed)
	d.mark(codecOf(algo.List))
	out, ok := d.between([]byte("before"), most)
	require.Equal(t, "before", string(out[:6]))
	if !ok {
		return 0, false
	}
	got, read := appendChanged([]byte("and"), d.old, out[6:], len(d.new))
	require.True(t, read)
	require.Equal(t, "and"+string(d.new), string(got))
	_, read = appendChanged(nil, d.old, out[6:], len(d.new)-1)
	require.False(t, read, "longer than it may be")
	return len(out) - 6, true
}

func TestADifferenceMakesTheNewState(t *testing.T) {
	var d differ
	for seed := range uint64(300) {
		rnd := rand.New(rand.NewPCG(31, seed))
		many := 2 + rnd.IntN(300) // few recur
		piece := func() []byte {
			return bytes.Repeat([]byte{byte('a' + rnd.IntN(3))}, rnd.IntN(many))
		}
		old := [][]byte{piece()}
		for range rnd.IntN(500) {
			old = append(old, piece())
		}
		changed := slices.Clone(old)
		for range rnd.IntN(20) {
			at := rnd.IntN(len(changed))
			switch rnd.IntN(4) {
			case 0:
				changed[at] = piece()
			case 1:
				changed = slices.Insert(changed, at, piece())
			case 2:
				changed = append(changed[at:len(changed):len(changed)], changed[:at]...)
			case 3:
				if changed = slices.Delete(changed, at, min(at+rnd.IntN(80), len(changed))); len(changed) == 0 {
					changed = [][]byte{piece()}
				}
			}
		}
		_, ok := difference(t, &d, old, changed, 1<<30)
		require.True(t, ok)
		if size, ok := difference(t, &d, old, changed, 200); ok {
			require.LessOrEqual(t, size, 200)
		}
	}
}

// A difference has little more than the pieces that are new.
func TestADifferenceIsSmall(t *testing.T) {
	var old [][]byte
	for i := range 1000 {
		old = append(old, fmt.Appendf(nil, "piece %d of a list, with much that all of them have", i))
	}
	other := func(i int) []byte { return fmt.Appendf(nil, "and another piece of about that length: %d", i) }
	var d differ
	f := func(name string, most int, change func(l [][]byte) [][]byte) {
		size, ok := difference(t, &d, old, change(slices.Clone(old)), most)
		require.True(t, ok, name)
		t.Logf("%s: %d bytes", name, size)
	}
	f("nothing", 16, func(l [][]byte) [][]byte { return l })
	f("the first gone", 16, func(l [][]byte) [][]byte { return l[1:] })
	f("most gone", 16, func(l [][]byte) [][]byte { return l[900:] })
	f("a log", 20*60, func(l [][]byte) [][]byte {
		for i := range 20 {
			l = append(l[1:], other(i))
		}
		return l
	})
	f("a capped list", 20*60, func(l [][]byte) [][]byte {
		for i := range 20 {
			l = append([][]byte{other(i)}, l[:999]...)
		}
		return l
	})
	f("more gone than one looks for nearby, and some changed", 20*60, func(l [][]byte) [][]byte {
		l = l[200:]
		for i := range 10 {
			l[i*50] = other(i)
		}
		return l
	})
	f("a piece that is elsewhere too comes to the front", 150, func(l [][]byte) [][]byte {
		return append([][]byte{l[900]}, l...)
	})
	f("some changed, one to what is elsewhere too", 250, func(l [][]byte) [][]byte {
		l[0], l[1] = l[900], other(1)
		return append(l, other(2))
	})
	f("some changed next to one another", 6*60, func(l [][]byte) [][]byte {
		return slices.Replace(l, 500, 503, other(1), other(2), other(3), other(4), other(5))
	})
}

func FuzzDifference(f *testing.F) {
	f.Add([]byte("some state"), []byte{5, 1, 3, 2, 'n', 'w'})
	f.Add([]byte("some state"), []byte{8, 5, 5, 3, 'n', 'e', 'w'})
	f.Fuzz(func(t *testing.T, old, difference []byte) {
		if changed, ok := appendChanged(nil, old, difference, 100); ok {
			require.LessOrEqual(t, len(changed), 100)
		}
	})
}
