package lua

import (
	"math"
	"unsafe"
)

// Kind is the type of a Value as Lua sees it.
type Kind uint8

const (
	KindNil Kind = iota
	KindBoolean
	KindNumber
	KindString
	KindTable
	KindFunction
	KindUserdata
	KindCoroutine
	// kindResults marks what Thread.Return returns: the results are in the thread. Scripts
	// never see it.
	kindResults
)

var kindNames = [...]string{"nil", "boolean", "number", "string", "table", "function", "userdata", "thread", "results"}

// String returns the name that Lua's type() returns.
func (k Kind) String() string { return kindNames[k] }

// Value is a Lua value of any type. It has 16 bytes, and needs no allocation. The zero
// Value is nil.
//
// If ref is nil, the Value is nil (bits 0), false (bits 1), true (bits 2), or a number
// whose IEEE 754 bits are stored inverted. So the bits of nil, false and true are NaNs
// that no computation makes. If ref is set, the kind of the Value is in the top byte of
// bits. A string has its bytes at ref, and its length in the lower bits.
type Value struct {
	ref  unsafe.Pointer
	bits uint64
}

const (
	bitsFalse = 1
	bitsTrue  = 2

	kindShift = 56
	sizeMask  = 1<<kindShift - 1
)

// Nil, False and True are the constants of the language.
var (
	Nil   = Value{}
	False = Value{bits: bitsFalse}
	True  = Value{bits: bitsTrue}
)

// Boolean returns the Value of b.
func Boolean(b bool) Value {
	if b {
		return True
	}
	return False
}

// Number returns the Value of f. A float made from bytes that a client supplied
// (struct.unpack, cmsgpack) must pass through Canonical first.
func Number(f float64) Value { return Value{bits: ^math.Float64bits(f)} }

// Canonical is f, or the usual NaN instead of one with other bits.
func Canonical(f float64) float64 {
	if f != f {
		return math.Float64frombits(0x7FF8000000000000 | math.Float64bits(f)&(1<<63))
	}
	return f
}

// Int returns the Value of n.
func Int(n int) Value { return Number(float64(n)) }

// emptyString gives the empty string a ref.
var emptyString [1]byte

// String returns the Value of s. It refers to the bytes of s, and charges nothing. For
// strings that a script makes, use Thread.String or a similar method.
func String(s string) Value {
	p := unsafe.Pointer(unsafe.StringData(s))
	if len(s) == 0 {
		p = unsafe.Pointer(&emptyString)
	}
	return Value{ref: p, bits: uint64(KindString)<<kindShift | uint64(len(s))}
}

// Kind returns the type of v.
func (v Value) Kind() Kind {
	if v.ref != nil {
		return Kind(v.bits >> kindShift)
	}
	if v.bits > bitsTrue {
		return KindNumber
	}
	if v.bits == 0 {
		return KindNil
	}
	return KindBoolean
}

// IsNil reports whether v is nil.
func (v Value) IsNil() bool { return v == Value{} }

// Truth reports whether v counts as true: anything but nil and false.
func (v Value) Truth() bool { return v.ref != nil || v.bits > bitsFalse }

// IsNumber reports whether v is a number; strings that look like one are not.
func (v Value) IsNumber() bool { return v.ref == nil && v.bits > bitsTrue }

// Number returns the number in v, which must be one (see IsNumber).
func (v Value) Number() float64 { return math.Float64frombits(^v.bits) }

// IsString reports whether v is a string; numbers are not.
func (v Value) IsString() bool { return v.bits>>kindShift == uint64(KindString) && v.ref != nil }

// Text returns the bytes of the string v. v must be a string (see IsString). The result
// shares memory with v, which never changes.
func (v Value) Text() string { return unsafe.String((*byte)(v.ref), int(v.bits&sizeMask)) }

// Table returns the table in v, or nil if v is not a table.
func (v Value) Table() *Table {
	if v.ref != nil && v.bits == uint64(KindTable)<<kindShift {
		return (*Table)(v.ref)
	}
	return nil
}

// Function is the function in v, or nil if v is not one.
func (v Value) Function() *Function {
	if v.ref != nil && v.bits == uint64(KindFunction)<<kindShift {
		return (*Function)(v.ref)
	}
	return nil
}

// Userdata returns the userdata in v, or nil if v is not one.
func (v Value) Userdata() *Userdata {
	if v.ref != nil && v.bits == uint64(KindUserdata)<<kindShift {
		return (*Userdata)(v.ref)
	}
	return nil
}

// coroutine returns the coroutine in v, or nil if v is not one.
func (v Value) coroutine() *coroutine {
	if v.ref != nil && v.bits == uint64(KindCoroutine)<<kindShift {
		return (*coroutine)(v.ref)
	}
	return nil
}

// Value returns the Value of the table.
func (t *Table) Value() Value {
	return Value{ref: unsafe.Pointer(t), bits: uint64(KindTable) << kindShift}
}

// Value returns the Value of the function.
func (f *Function) Value() Value {
	return Value{ref: unsafe.Pointer(f), bits: uint64(KindFunction) << kindShift}
}

// Userdata is an opaque value of the host, such as cjson.null. tostring shows Address after
// "userdata: ".
type Userdata struct {
	Address string
	meta    *Table
}

// Value returns the Value of the userdata.
func (u *Userdata) Value() Value {
	return Value{ref: unsafe.Pointer(u), bits: uint64(KindUserdata) << kindShift}
}

func (c *coroutine) value() Value {
	return Value{ref: unsafe.Pointer(c), bits: uint64(KindCoroutine) << kindShift}
}

// RawEqual compares without metamethods: numbers by value, strings by bytes,
// the rest by identity.
func RawEqual(a, b Value) bool {
	if a == b {
		return a.ref != nil || a.bits <= bitsTrue || a.Number() == a.Number()
	}
	if a.ref == nil {
		return a.IsNumber() && b.IsNumber() && a.Number() == b.Number()
	}
	// Strings are equal only with the same kind and length.
	return a.bits == b.bits && b.ref != nil && a.bits>>kindShift == uint64(KindString) && a.Text() == b.Text()
}

// bytes are the 256 strings of one byte.
var bytes = func() (s [256]byte) {
	for i := range s {
		s[i] = byte(i)
	}
	return s
}()

// Byte returns the string of the one byte b; it costs no memory.
func Byte(b byte) Value {
	return Value{ref: unsafe.Pointer(&bytes[b]), bits: uint64(KindString)<<kindShift | 1}
}
