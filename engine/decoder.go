package engine

import (
	"encoding/binary"
	"math"

	"github.com/headgate-io/headgate/engine/algo"
)

// decoder reads a payload; after the first fault it returns zeros.
type decoder struct {
	b   []byte
	bad bool
}

func (d *decoder) fail() { d.b, d.bad = nil, true }

func (d *decoder) byte() byte {
	if len(d.b) == 0 {
		d.fail()
		return 0
	}
	v := d.b[0]
	d.b = d.b[1:]
	return v
}

func (d *decoder) uvarint() uint64 {
	v, n := binary.Uvarint(d.b)
	if n <= 0 {
		d.fail()
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *decoder) varint() int64 {
	v, n := binary.Varint(d.b)
	if n <= 0 {
		d.fail()
		return 0
	}
	d.b = d.b[n:]
	return v
}

// uvarintMax reads an integer of at most max.
func (d *decoder) uvarintMax(max uint64) uint64 {
	v := d.uvarint()
	if v > max {
		d.fail()
		return 0
	}
	return v
}

func (d *decoder) bytes(n uint64) []byte {
	if n > uint64(len(d.b)) {
		d.fail()
		return nil
	}
	v := d.b[:n:n]
	d.b = d.b[n:]
	return v
}

// short reads what appendShort has written.
func (d *decoder) short() []byte { return d.bytes(d.uvarint()) }

// limit reads what appendLimit has written; it may be one that is not valid.
func (d *decoder) limit() (l algo.Limit) {
	l.Algorithm, l.Rounding, l.Align = algo.Algorithm(d.byte()), algo.Rounding(d.byte()), algo.Align(d.byte())
	l.Limit, l.Period, l.Burst = d.varint(), d.varint(), d.varint()
	if l.Algorithm.IsPolicy() {
		l.Resets, l.Scalings = uint16(d.uvarintMax(math.MaxUint16)), uint16(d.uvarintMax(math.MaxUint16))
	}
	return l
}
