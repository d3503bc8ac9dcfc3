package resp

import (
	"math"
	"math/bits"
	"strconv"
	"sync"

	"github.com/tidwall/redcon"
)

// Writer appends replies to B. The zero value writes RESP2. If a type of reply does not
// exist in RESP2, it has the form that Redis gives it there.
type Writer struct {
	B     []byte
	RESP3 bool
	// Room, if not nil, is called before B grows by bytes for a text; B is then length
	// bytes long. After it has returned false once, such texts are left out, and Refused is
	// set. B is then not a valid reply.
	Room    func(bytes, length int) bool
	Refused bool
	// Parts is the part of a long reply that comes before B. Only a Writer with MayDivide
	// has Parts, after Divide.
	Parts     [][]byte
	MayDivide bool

	divided bool
	before  int // bytes in Parts
}

// longText is the length of a text from which on Room is asked.
const longText = 4 << 10

// doubled is up to where a buffer grows to twice its size, and not by half.
const doubled = 256 << 10

// partSize is the size of a part of a long reply, in bytes.
const partSize = 1 << 20

// spareParts keeps parts for the next long reply: their memory need not be cleared,
// nor be collected.
var spareParts sync.Pool

// newPart returns an empty part of at least n bytes.
func newPart(n int) []byte {
	if n > partSize {
		return make([]byte, 0, n)
	}
	if part, ok := spareParts.Get().(*[partSize]byte); ok {
		return part[:0]
	}
	return make([]byte, 0, partSize)
}

// FreePart takes a former part of a Writer for reuse. Nobody may use the part any more.
func FreePart(part []byte) {
	if cap(part) == partSize {
		spareParts.Put((*[partSize]byte)(part[:partSize]))
	}
}

// Divide lets a long reply be in parts, which are never copied when it grows. After that,
// the caller may use only Len and Cut to look at what it has written.
func (w *Writer) Divide() { w.divided = w.MayDivide }

// Len returns the length of all that has been written.
func (w *Writer) Len() int { return w.before + len(w.B) }

// Head returns how the reply begins.
func (w *Writer) Head() []byte {
	if len(w.Parts) > 0 {
		return w.Parts[0]
	}
	return w.B
}

// Cut removes what has been written since B had n bytes. In a reply that is in parts, it
// removes everything.
func (w *Writer) Cut(n int) {
	if len(w.Parts) > 0 {
		w.Parts, w.before, w.B = nil, 0, nil
		return
	}
	w.B = w.B[:n]
}

// Join makes one piece of a reply in parts.
func (w *Writer) Join() {
	n := w.Len()
	if len(w.Parts) == 0 || w.Refused {
		return
	}
	if w.Refused = !w.Room(n, n); w.Refused {
		return
	}
	whole := make([]byte, 0, n)
	for _, part := range w.Parts {
		whole = append(whole, part...)
	}
	w.Parts, w.before, w.B = nil, 0, append(whole, w.B...)
}

// Takes makes room for a text of n bytes. It returns false if Room refuses.
func (w *Writer) Takes(n int) bool {
	const frame = 32 // the line before a text, and its end
	least := len(w.B) + n + frame
	if w.Room == nil || least <= cap(w.B) {
		return true
	}
	if w.divided && len(w.B) >= doubled {
		size := max(n+frame, partSize)
		if w.Refused = w.Refused || !w.Room(size, w.before+least); w.Refused {
			return false
		}
		w.Parts, w.before, w.B = append(w.Parts, w.B), w.Len(), newPart(size)
		return true
	}
	size := max(least, cap(w.B)+cap(w.B)/2, min(2*cap(w.B), doubled))
	if w.Refused = w.Refused || !w.Room(size-cap(w.B), least); w.Refused {
		return false
	}
	grown := make([]byte, len(w.B), size)
	copy(grown, w.B)
	w.B = grown
	return true
}

// Int writes an integer.
func (w *Writer) Int(n int64) {
	// Most integers in replies have one or two digits. The general case costs a call and a
	// copy through a scratch buffer.
	if uint64(n) < 10 {
		w.B = append(w.B, ':', byte('0'+n), '\r', '\n')
		return
	}
	if uint64(n) < 100 {
		w.B = append(w.B, ':', byte('0'+n/10), byte('0'+n%10), '\r', '\n')
		return
	}
	w.B = append(w.B, ':')
	w.B = AppendInt(w.B, n)
	w.B = append(w.B, '\r', '\n')
}

// Bulk writes a binary-safe string.
func (w *Writer) Bulk(b []byte) {
	if len(b) < longText || w.Takes(len(b)) {
		w.B = redcon.AppendBulk(w.B, b)
	}
}

// BulkString writes a binary-safe string.
func (w *Writer) BulkString(s string) {
	if len(s) < longText || w.Takes(len(s)) {
		w.B = redcon.AppendBulkString(w.B, s)
	}
}

// BulkHeader begins a binary-safe string of n bytes. The caller must then write the string
// and a line end.
func (w *Writer) BulkHeader(n int) { w.header('$', n) }

// Raw writes a reply unchanged.
func (w *Writer) Raw(reply []byte) {
	if w.Takes(len(reply)) {
		w.B = append(w.B, reply...)
	}
}

// Simple writes a status, such as OK. Line breaks become spaces.
func (w *Writer) Simple(s string) { w.B = redcon.AppendString(w.B, s) }

// OK writes the status OK.
func (w *Writer) OK() { w.B = append(w.B, "+OK\r\n"...) }

// Error writes an error. s begins with its code, such as ERR. Line breaks become spaces.
func (w *Writer) Error(s string) { w.B = redcon.AppendError(w.B, s) }

// Array opens an array of n replies, which the caller writes next.
func (w *Writer) Array(n int) { w.header('*', n) }

// Map begins a map of n pairs, with each key before its value. In RESP2 it is an array of
// 2n elements.
func (w *Writer) Map(n int) {
	if w.RESP3 {
		w.header('%', n)
		return
	}
	w.header('*', 2*n)
}

// Set opens a set of n replies: in RESP2 an array.
func (w *Writer) Set(n int) {
	if w.RESP3 {
		w.header('~', n)
		return
	}
	w.header('*', n)
}

// Push opens an out-of-band message of n replies: in RESP2 an array.
func (w *Writer) Push(n int) {
	if w.RESP3 {
		w.header('>', n)
		return
	}
	w.header('*', n)
}

// Null writes the absence of a value: in RESP2 a null bulk string.
func (w *Writer) Null() {
	if w.RESP3 {
		w.B = append(w.B, "_\r\n"...)
		return
	}
	w.B = append(w.B, "$-1\r\n"...)
}

// NullArray writes a null in place of an array. RESP3 has only one null.
func (w *Writer) NullArray() {
	if w.RESP3 {
		w.B = append(w.B, "_\r\n"...)
		return
	}
	w.B = append(w.B, "*-1\r\n"...)
}

// Bool writes a truth value: in RESP2 the integer 1 or 0.
func (w *Writer) Bool(v bool) {
	switch {
	case w.RESP3 && v:
		w.B = append(w.B, "#t\r\n"...)
	case w.RESP3:
		w.B = append(w.B, "#f\r\n"...)
	case v:
		w.B = append(w.B, ":1\r\n"...)
	default:
		w.B = append(w.B, ":0\r\n"...)
	}
}

// Double writes a floating-point number with 17 significant digits, as Redis 7.0 does. In
// RESP2 it is a bulk string.
func (w *Writer) Double(f float64) {
	if w.RESP3 {
		w.B = append(w.B, ',')
		w.B = AppendDouble(w.B, f)
		w.B = append(w.B, '\r', '\n')
		return
	}
	var text [32]byte
	w.Bulk(AppendDouble(text[:0], f))
}

// AppendDouble appends f as text to b, in the form of C's %.17g, including inf, -inf and
// -0.
func AppendDouble(b []byte, f float64) []byte {
	const exact = 1 << 52 // below, each integer is one text in either form
	if n := int64(f); -exact < f && f < exact && float64(n) == f && (n != 0 || !math.Signbit(f)) {
		return strconv.AppendInt(b, n, 10)
	}
	if math.IsInf(f, 0) {
		if f < 0 {
			b = append(b, '-')
		}
		return append(b, "inf"...)
	}
	if f < 0 {
		b, f = append(b, '-'), -f
	}
	if f > 1 && f < exact {
		return appendFraction(b, f)
	}
	return strconv.AppendFloat(b, f, 'g', 17, 64)
}

// powersOfTen are as many as fit in 64 bits.
var powersOfTen = func() (p [20]uint64) {
	p[0] = 1
	for i := 1; i < len(p); i++ {
		p[i] = 10 * p[i-1]
	}
	return p
}()

// appendFraction does the same as AppendDouble for 1 < f < 2^52, with integers.
func appendFraction(b []byte, f float64) []byte {
	const mantissa = 52
	word := math.Float64bits(f)
	shift := mantissa - (int(word>>mantissa) - 1023) // f is significand / 2^shift
	significand := word&(1<<mantissa-1) | 1<<mantissa
	whole, rest := significand>>shift, significand&(1<<shift-1)
	start := len(b)
	b = strconv.AppendUint(b, whole, 10)
	unit := powersOfTen[17-(len(b)-start)]
	hi, lo := bits.Mul64(rest, unit)
	decimals, below := hi<<(64-shift)|lo>>shift, lo&(1<<shift-1)
	if half := uint64(1) << (shift - 1); below > half || below == half && decimals&1 == 1 {
		decimals++
	}
	// The 1 before the decimals keeps their zeros, and its place is later used for the
	// point. The decimals are neither all zeros nor all nines that round up, because a
	// float64 has fewer digits than these.
	at := len(b)
	b = strconv.AppendUint(b, unit+decimals, 10)
	b[at] = '.'
	for b[len(b)-1] == '0' {
		b = b[:len(b)-1]
	}
	return b
}

// Verbatim writes a text for people. format has three letters, such as txt. In RESP2 it is
// a bulk string.
func (w *Writer) Verbatim(format, s string) {
	if !w.RESP3 {
		w.BulkString(s)
		return
	}
	w.header('=', len(s)+4)
	w.B = append(w.B, format...)
	w.B = append(w.B, ':')
	w.B = append(w.B, s...)
	w.B = append(w.B, '\r', '\n')
}

// header writes a type byte and a count.
func (w *Writer) header(kind byte, n int) {
	if uint(n) < 10 {
		w.B = append(w.B, kind, byte('0'+n), '\r', '\n')
		return
	}
	w.B = append(w.B, kind)
	w.B = strconv.AppendInt(w.B, int64(n), 10)
	w.B = append(w.B, '\r', '\n')
}
