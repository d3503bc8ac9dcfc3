package engine

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/headgate-io/headgate/shard"
)

// effectsVersion is the first byte of every payload and snapshot chunk. A node
// that reads another one stops: skipping what it does not know would make its
// table differ from the log.
const effectsVersion = 1

// Records of a payload, after the version byte. Integers are varints unless
// said otherwise.
//
//	recordLimit   algorithm, rounding, align (1 byte each), limit, period, burst
//	              the next number of this payload's dictionary, from 0
//	recordPut     dictionary number, deadline, key length, state words, key,
//	              state (8 bytes little-endian a word)
//	recordDelete  key length, key
const (
	recordLimit = iota + 1
	recordPut
	recordDelete
)

// ErrEffects is returned for a payload that this version cannot read.
var ErrEffects = errors.New("unreadable effects")

// encoder writes payloads of at most max bytes, as long as no single record is
// larger. Each payload can be read without the others.
type encoder struct {
	limits *interner
	max    int
	parts  [][]byte
	buf    []byte
	dict   map[uint32]uint64
	record []byte // scratch
}

func newEncoder(limits *interner, max int) *encoder {
	return &encoder{limits: limits, max: max, dict: make(map[uint32]uint64)}
}

// put adds the full state of an entry.
func (enc *encoder) put(im shard.Image) {
	n, known := enc.dict[im.Meta]
	for {
		r := enc.record[:0]
		if !known {
			n = uint64(len(enc.dict))
			r = appendLimit(r, enc.limits.get(im.Meta).limit)
		}
		r = append(r, recordPut)
		r = binary.AppendUvarint(r, n)
		r = binary.AppendVarint(r, im.Deadline)
		r = binary.AppendUvarint(r, uint64(len(im.Key)))
		r = binary.AppendUvarint(r, uint64(len(im.State)/8))
		r = append(r, im.Key...)
		r = append(r, im.State...)
		enc.record = r
		if !enc.full(len(r)) {
			break
		}
		enc.cut()
		known = false
	}
	enc.dict[im.Meta] = n
	enc.append(enc.record)
}

// remove adds that a key is gone.
func (enc *encoder) remove(key []byte) {
	r := append(enc.record[:0], recordDelete)
	r = binary.AppendUvarint(r, uint64(len(key)))
	r = append(r, key...)
	enc.record = r
	if enc.full(len(r)) {
		enc.cut()
	}
	enc.append(r)
}

// full tells whether n more bytes do not fit a payload that holds something.
func (enc *encoder) full(n int) bool { return len(enc.buf) > 1 && len(enc.buf)+n > enc.max }

func (enc *encoder) append(record []byte) {
	if len(enc.buf) == 0 {
		enc.buf = append(enc.buf, effectsVersion)
	}
	enc.buf = append(enc.buf, record...)
}

// cut ends the current payload.
func (enc *encoder) cut() {
	if len(enc.buf) > 0 {
		enc.parts = append(enc.parts, enc.buf)
		enc.buf = nil
		clear(enc.dict)
	}
}

// finish returns the payloads.
func (enc *encoder) finish() [][]byte {
	enc.cut()
	return enc.parts
}

func appendLimit(b []byte, l Limit) []byte {
	b = append(b, recordLimit, byte(l.Algorithm), byte(l.Rounding), byte(l.Align))
	b = binary.AppendVarint(b, l.Limit)
	b = binary.AppendVarint(b, l.Period)
	return binary.AppendVarint(b, l.Burst)
}

// effect is one record of a payload: the state of a key, or its absence.
type effect struct {
	image shard.Image // Meta is not set
	limit int         // number in the dictionary; -1 for an absent key
}

// decodeEffects calls limit for each new entry of the dictionary and fn for
// each effect, in order. Keys and states are parts of payload.
func decodeEffects(payload []byte, limit func(Limit) error, fn func(effect) error) error {
	if len(payload) == 0 || payload[0] != effectsVersion {
		return fmt.Errorf("%w: version %d, this node knows %d; upgrade it", ErrEffects, payload[:min(len(payload), 1)], effectsVersion)
	}
	d := decoder{b: payload[1:]}
	known := 0
	for len(d.b) > 0 {
		switch kind := d.byte(); kind {
		case recordLimit:
			l := Limit{Algorithm: Algorithm(d.byte()), Rounding: Rounding(d.byte()), Align: Align(d.byte())}
			l.Limit, l.Period, l.Burst = d.varint(), d.varint(), d.varint()
			if d.bad {
				return fmt.Errorf("%w: truncated limit", ErrEffects)
			}
			if err := l.Validate(); err != nil {
				return fmt.Errorf("%w: limit: %w", ErrEffects, err)
			}
			if err := limit(l); err != nil {
				return err
			}
			known++
		case recordPut:
			var e effect
			n := d.uvarint()
			e.image.Deadline = d.varint()
			key, words := d.uvarint(), d.uvarint()
			e.image.Key = d.bytes(key, shard.MaxKeyLen)
			e.image.State = d.bytes(8*words, 8*shard.MaxWords)
			if d.bad || n >= uint64(known) {
				return fmt.Errorf("%w: bad state", ErrEffects)
			}
			e.limit = int(n)
			if err := fn(e); err != nil {
				return err
			}
		case recordDelete:
			e := effect{limit: -1}
			e.image.Key = d.bytes(d.uvarint(), shard.MaxKeyLen)
			if d.bad {
				return fmt.Errorf("%w: bad deletion", ErrEffects)
			}
			if err := fn(e); err != nil {
				return err
			}
		default:
			return fmt.Errorf("%w: record %d", ErrEffects, kind)
		}
	}
	return nil
}

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

func (d *decoder) bytes(n uint64, most int) []byte {
	if n > uint64(most) || n > uint64(len(d.b)) {
		d.fail()
		return nil
	}
	v := d.b[:n:n]
	d.b = d.b[n:]
	return v
}
