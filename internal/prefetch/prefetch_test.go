package prefetch

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// Lines that cannot be read cause no fault, nor does a number of lines below 1.
func TestAnyAddress(t *testing.T) {
	var x [3]uint64
	Line(nil)
	Line(unsafe.Pointer(&x))
	for _, n := range []int{-1, 0, 1, 3} {
		Lines(nil, n)
		Lines(unsafe.Pointer(&x), n)
	}
	Object(&x)
	Object[[100]byte](nil)
	Array(x[:], 1)
	Array[byte](nil, 2)
}

func TestLinesOfAnObject(t *testing.T) {
	require.Equal(t, 0, lines(0, 0))
	require.Equal(t, 1, lines(0, 1))
	require.Equal(t, 1, lines(0, Size))
	require.Equal(t, 2, lines(8, Size))
	require.Equal(t, 2, lines(Size-8, 16))
	require.Equal(t, 1, lines(Size, 16))
}
