package effects

import (
	"encoding/binary"

	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/shard"
)

// Limits maps ids to limits.
type Limits interface {
	// LimitOf returns the limit with an id found in a record. The shard of the record
	// must be locked, or something must hold a reference to the limit.
	LimitOf(id uint32) *algo.Limit
}

// Encoder writes payloads of at most max bytes, unless a single record is larger. Each
// payload can be read without the others.
type Encoder struct {
	limits  Limits
	formats Formats
	max     int
	expect  int // bytes that the payload is expected to have
	parts   [][]byte
	buf     []byte
	dict    map[uint32]uint64
	// The previous record, to which the next record refers. meta is the meta of the last
	// put, if there was a put.
	key      []byte
	deadline int64
	meta     uint32
	started  bool
}

// NewEncoder returns an encoder of payloads of a format. expect is the expected size of
// the first, in bytes.
func NewEncoder(limits Limits, f Formats, max, expect int) *Encoder {
	return &Encoder{limits: limits, formats: f, max: max, expect: min(expect, max), dict: make(map[uint32]uint64)}
}

// Put adds the full state of an entry.
func (enc *Encoder) Put(im shard.Image) { enc.Add(im, nil) }

// Add adds the state of an entry, as the delta d unless d is nil.
func (enc *Encoder) Add(im shard.Image, d *Delta) {
	start := enc.begin()
	if enc.appendPut(im, d); enc.full(start) {
		enc.begin()
		enc.appendPut(im, d)
	}
}

// Remove adds the absence of a key.
func (enc *Encoder) Remove(db uint8, key []byte) {
	start := enc.begin()
	if enc.appendDelete(db, key); enc.full(start) {
		enc.begin()
		enc.appendDelete(db, key)
	}
}

// System adds a system record; a nil value means that it is gone.
func (enc *Encoder) System(k SystemKey, value []byte) {
	start := enc.begin()
	if enc.buf = AppendSystem(append(enc.buf, recordSystem), k, value); enc.full(start) {
		enc.begin()
		enc.buf = AppendSystem(append(enc.buf, recordSystem), k, value)
	}
}

// Included adds the clock up to which a snapshot may contain batches.
func (enc *Encoder) Included(clock int64) {
	enc.begin()
	enc.buf = binary.AppendVarint(append(enc.buf, recordIncluded), clock)
}

// Flush adds that no keys are left. It must come before other records.
func (enc *Encoder) Flush() {
	enc.begin()
	enc.buf = append(enc.buf, recordFlush)
}

// begin starts a payload if there is none, and returns its length.
func (enc *Encoder) begin() int {
	if len(enc.buf) == 0 {
		enc.buf = append(make([]byte, 0, enc.expect), enc.formats.Effects)
	}
	return len(enc.buf)
}

// full ends the payload before the record that begins at start, if that record has made
// the payload too large and is not the payload's only record.
func (enc *Encoder) full(start int) bool {
	if len(enc.buf) <= enc.max || start == 1 {
		return false
	}
	enc.buf = enc.buf[:start]
	enc.cut()
	return true
}

func (enc *Encoder) appendPut(im shard.Image, d *Delta) {
	b := enc.buf
	kind := byte(recordPut)
	n := uint64(0)
	if im.Meta != enc.meta || !enc.started {
		kind = recordPutOf
		var known bool
		if n, known = enc.dict[im.Meta]; !known {
			l := enc.limits.LimitOf(im.Meta)
			b = AppendLimit(append(b, recordLimit|l.DB<<kindBits), *l)
			n = uint64(len(enc.dict))
			enc.dict[im.Meta] = n
		}
		enc.meta, enc.started = im.Meta, true
	}
	if d != nil {
		b = append(b, recordDelta)
	}
	words := len(im.State) / 8
	b = append(b, kind|byte(min(words, manyWords))<<kindBits)
	if words >= manyWords {
		b = binary.AppendUvarint(b, uint64(words-manyWords))
	}
	if kind == recordPutOf {
		b = binary.AppendUvarint(b, n)
	}
	b = enc.appendKey(b, im.Key)
	b = binary.AppendVarint(b, im.Deadline-enc.deadline)
	enc.deadline = im.Deadline
	if d != nil {
		b = binary.AppendUvarint(append(b, d.Base...), uint64(len(d.Difference)))
		enc.buf = append(b, d.Difference...)
		return
	}
	if len(im.State) != 8 { // most have one word
		enc.buf = enc.appendState(b, im.State)
		return
	}
	enc.buf = binary.AppendUvarint(b, binary.LittleEndian.Uint64(im.State))
}

// appendState adds a state under the limit of enc.meta.
func (enc *Encoder) appendState(b, state []byte) []byte {
	if len(state) > 8*smallState {
		if k := codecOf(enc.limits.LimitOf(enc.meta).Algorithm); k.encode != nil {
			return k.encode(b, state)
		}
	}
	for w := state; len(w) > 0; w = w[8:] {
		b = binary.AppendUvarint(b, binary.LittleEndian.Uint64(w))
	}
	return b
}

func (enc *Encoder) appendDelete(db uint8, key []byte) {
	head := byte(recordDelete)
	if db != 0 {
		head = recordDeleteIn + db<<kindBits
	}
	enc.buf = enc.appendKey(append(enc.buf, head), key)
}

func (enc *Encoder) appendKey(b, key []byte) []byte {
	shared := 0
	for shared < len(key) && shared < len(enc.key) && key[shared] == enc.key[shared] {
		shared++
	}
	rest := len(key) - shared
	b = append(b, byte(min(shared, longLen))<<lenBits|byte(min(rest, longLen)))
	if shared >= longLen {
		b = binary.AppendUvarint(b, uint64(shared-longLen))
	}
	if rest >= longLen {
		b = binary.AppendUvarint(b, uint64(rest-longLen))
	}
	enc.key = append(enc.key[:shared], key[shared:]...)
	return append(b, key[shared:]...)
}

// cut ends the current payload.
func (enc *Encoder) cut() {
	if len(enc.buf) > 0 {
		enc.parts = append(enc.parts, enc.buf)
		enc.buf = nil
		clear(enc.dict)
		enc.key, enc.deadline, enc.started = enc.key[:0], 0, false
	}
}

// Empty reports whether nothing has been added.
func (enc *Encoder) Empty() bool { return len(enc.parts) == 0 && len(enc.buf) == 0 }

// Finish returns the payloads.
func (enc *Encoder) Finish() [][]byte {
	enc.cut()
	return enc.parts
}

// leasedBit marks a leased limit in the byte of its alignment.
const leasedBit = 0x80

// AppendLimit appends a limit without its database.
func AppendLimit(b []byte, l algo.Limit) []byte {
	align := byte(l.Align)
	if l.Leased {
		align |= leasedBit
	}
	b = append(b, byte(l.Algorithm), byte(l.Rounding), align)
	b = binary.AppendVarint(b, l.Limit)
	b = binary.AppendVarint(b, l.Period)
	b = binary.AppendVarint(b, l.Burst)
	if l.Algorithm.IsPolicy() {
		b = binary.AppendUvarint(b, uint64(l.Resets))
		b = binary.AppendUvarint(b, uint64(l.Scalings))
	}
	return b
}
