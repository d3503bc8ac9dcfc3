package resp

import (
	"math"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWriter(t *testing.T) {
	f := func(want2, want3 string, write func(w *Writer)) {
		t.Helper()
		var two Writer
		write(&two)
		require.Equal(t, want2, string(two.B))
		three := Writer{RESP3: true}
		write(&three)
		require.Equal(t, want3, string(three.B))
	}
	same := func(want string, write func(w *Writer)) { t.Helper(); f(want, want, write) }
	same("$2\r\na\n\r\n", func(w *Writer) { w.Bulk([]byte("a\n")) })
	same("$0\r\n\r\n", func(w *Writer) { w.BulkString("") })
	same("+PONG\r\n", func(w *Writer) { w.Simple("PONG") })
	same("+OK\r\n", func(w *Writer) { w.OK() })
	same("-ERR a b\r\n", func(w *Writer) { w.Error("ERR a\nb") })
	same("*10\r\n", func(w *Writer) { w.Array(10) })
	f("*6\r\n", "%3\r\n", func(w *Writer) { w.Map(3) })
	f("*3\r\n", "~3\r\n", func(w *Writer) { w.Set(3) })
	f("*3\r\n", ">3\r\n", func(w *Writer) { w.Push(3) })
	f("$-1\r\n", "_\r\n", func(w *Writer) { w.Null() })
	f("*-1\r\n", "_\r\n", func(w *Writer) { w.NullArray() })
	f(":1\r\n", "#t\r\n", func(w *Writer) { w.Bool(true) })
	f(":0\r\n", "#f\r\n", func(w *Writer) { w.Bool(false) })
	f("$2\r\nhi\r\n", "=6\r\ntxt:hi\r\n", func(w *Writer) { w.Verbatim("txt", "hi") })
}

func TestWriterInt(t *testing.T) {
	for _, n := range []int64{0, 9, 10, 42, 99, 100, 101, -1, -10, math.MaxInt64, math.MinInt64} {
		var w Writer
		w.Int(n)
		require.Equal(t, ":"+strconv.FormatInt(n, 10)+"\r\n", string(w.B))
	}
}

func BenchmarkFiveIntegers(b *testing.B) {
	w := Writer{B: make([]byte, 0, 64)}
	b.ReportAllocs()
	for b.Loop() {
		w.B = w.B[:0]
		w.Array(5)
		w.Int(0)
		w.Int(16)
		w.Int(15)
		w.Int(-1)
		w.Int(2)
	}
}

func TestWriterDouble(t *testing.T) {
	f := func(f float64, want string) {
		t.Helper()
		two, three := Writer{}, Writer{RESP3: true}
		two.Double(f)
		three.Double(f)
		require.Equal(t, "$"+strconv.Itoa(len(want))+"\r\n"+want+"\r\n", string(two.B))
		require.Equal(t, ","+want+"\r\n", string(three.B))
	}
	f(0, "0")
	f(math.Copysign(0, -1), "-0")
	f(1, "1")
	f(-42, "-42")
	f(1.5, "1.5")
	f(0.1, "0.10000000000000001")
	f(1e15, "1000000000000000")
	f(1<<52, "4503599627370496")
	f(1e16, "10000000000000000")
	f(1e17, "1e+17")
	f(1e-5, "1.0000000000000001e-05")
	f(5e-324, "4.9406564584124654e-324")
	f(math.MaxFloat64, "1.7976931348623157e+308")
	f(math.Inf(1), "inf")
	f(math.Inf(-1), "-inf")
}

// Numbers that are written in integers have the digits of all others.
func TestDoubleDigits(t *testing.T) {
	check := func(f float64) {
		require.Equal(t, strconv.FormatFloat(f, 'g', 17, 64), string(AppendDouble(nil, f)))
	}
	f := func(f float64) {
		for _, near := range [...]float64{math.Nextafter(f, 0), f, math.Nextafter(f, math.Inf(1))} {
			if near != math.Trunc(near) { // whole numbers have another form
				check(near)
				check(-near)
			}
		}
	}
	for exponent := range 16 {
		f(math.Pow10(exponent))
	}
	f(1.5)
	f(1700000000.00390625) // half way between two texts
	f(1700000000.01171875)
	f(1<<51 + 0.5)
	f(1 << 52)
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 300_000 {
		f(rnd.Float64() * float64(uint64(1)<<rnd.IntN(54)))
		f(float64(rnd.Int64N(1<<40)) / float64(uint64(1)<<rnd.IntN(20))) // few binary digits: ties
	}
}

func BenchmarkDouble(b *testing.B) {
	at := 1700000000.1234567
	var text [32]byte
	for b.Loop() {
		AppendDouble(text[:0], at)
		at += 0.001
	}
}
