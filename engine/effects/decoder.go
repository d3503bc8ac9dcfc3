package effects

import (
	"encoding/binary"
	"math"

	"github.com/headgate-io/headgate/engine/algo"
)

// Decoder reads a payload. After the first fault it returns zeros.
type Decoder struct {
	B   []byte // what is left
	Bad bool
}

// Fail makes all further reads return zeros.
func (d *Decoder) Fail() { d.B, d.Bad = nil, true }

// Byte reads a byte.
func (d *Decoder) Byte() byte {
	if len(d.B) == 0 {
		d.Fail()
		return 0
	}
	v := d.B[0]
	d.B = d.B[1:]
	return v
}

// Uvarint reads an integer of at least 0.
func (d *Decoder) Uvarint() uint64 {
	v, n := binary.Uvarint(d.B)
	if n <= 0 {
		d.Fail()
		return 0
	}
	d.B = d.B[n:]
	return v
}

// Varint reads an integer.
func (d *Decoder) Varint() int64 {
	v, n := binary.Varint(d.B)
	if n <= 0 {
		d.Fail()
		return 0
	}
	d.B = d.B[n:]
	return v
}

// UvarintMax reads an integer of at most max.
func (d *Decoder) UvarintMax(max uint64) uint64 {
	v := d.Uvarint()
	if v > max {
		d.Fail()
		return 0
	}
	return v
}

// Bytes reads n bytes and returns a view of them.
func (d *Decoder) Bytes(n uint64) []byte {
	if n > uint64(len(d.B)) {
		d.Fail()
		return nil
	}
	v := d.B[:n:n]
	d.B = d.B[n:]
	return v
}

// Short reads the output of AppendShort.
func (d *Decoder) Short() []byte { return d.Bytes(d.Uvarint()) }

// limit reads the output of AppendLimit. The limit may be invalid.
func (d *Decoder) limit() (l algo.Limit) {
	l.Algorithm, l.Rounding = algo.Algorithm(d.Byte()), algo.Rounding(d.Byte())
	align := d.Byte()
	l.Align, l.Leased = algo.Align(align&^leasedBit), align&leasedBit != 0
	l.Limit, l.Period, l.Burst = d.Varint(), d.Varint(), d.Varint()
	if l.Algorithm.IsPolicy() {
		l.Resets, l.Scalings = uint16(d.UvarintMax(math.MaxUint16)), uint16(d.UvarintMax(math.MaxUint16))
	}
	return l
}

// AppendShort appends a text with its length.
func AppendShort(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}
