package engine

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/headgate-io/headgate/engine/packed"
	"github.com/headgate-io/headgate/shard"
)

// The first byte of every payload and snapshot chunk is a version: see Formats.
// A node that reads one which it does not know stops: skipping what it does not
// know would make its table differ from the log.
const (
	effectsOldest = 3 // that this build reads
	effectsFlush  = 4 // the first that has recordFlush and kind.encode
	effectsData   = 5 // the first that has databases and the data types
	effectsDelta  = 6 // the first that has recordDelta and recordIncluded
	effectsPolicy = 7 // the first that has policies' records and counters
	effectsNewest = 7 // that it reads, and writes where it is permitted
)

// Formats are the versions in which a replica writes; a cluster agrees on them.
type Formats struct {
	Effects byte // of payloads, and of the chunks of snapshots
}

// firstFormats are those of a replica that is permitted nothing else.
var firstFormats = Formats{Effects: effectsOldest}

// Check returns an error unless this build can read what f has it write.
func (f Formats) Check() error {
	if f.Effects < effectsOldest || f.Effects > effectsNewest {
		return fmt.Errorf("effects of version %d are not this build's", f.Effects)
	}
	return nil
}

// Records of a payload, after the version byte. The low two bits of a record's
// first byte are its kind, of recordLimit and recordDelete all bits; integers are
// varints unless said otherwise.
//
//	recordLimit   algorithm, rounding, align (1 byte each), limit, period, burst;
//	              of a policy's limit also resets, scalings;
//	              the next number of this payload's dictionary, from 0
//	recordPut     the state of a key whose limit is that of the put before: key,
//	              deadline, words
//	recordPutOf   dictionary number, then as recordPut
//	recordDelete  key
//	recordDeleteIn, from there on one for each database: key
//	recordSystem  a system record, or its absence: see appendSystem
//	recordFlush   all keys that there were before are gone; the first of its
//	              payload
//	recordDelta   what follows is a put with a delta in place of its words: base
//	              (baseSize bytes), length, difference (see differ)
//	recordIncluded
//	              of a snapshot, at its end: up to which clock batches may be
//	              in it that are behind its index
//
// The database of a key is that of its limit: the upper six bits of a limit's
// first byte. The upper six bits of a put's first byte are the number of state words;
// manyWords stands for that many and as many more as the varint after it says.
// A state of more than smallState words is written by its kind, if that has an
// encode.
//
// A key is what it shares with the key of the record before, and the rest. The
// lengths of both are the halves of a byte; longLen in a half stands for that
// many and as many more as the varint after it says, the shared part's first.
// A deadline is the difference to the deadline of the put before, modulo 2^64.
// The first record of a payload follows an empty key and a deadline of 0.
//
// An effect on a key of 16 bytes in a million, with a token's state, takes 16
// bytes; 36 with key, deadline and state written out.
const (
	recordLimit = iota
	recordPut
	recordPutOf
	recordDelete
	recordSystem   = recordDelete | 1<<kindBits
	recordFlush    = recordDelete | 2<<kindBits
	recordDelta    = recordDelete | 3<<kindBits
	recordIncluded = recordDelete | 4<<kindBits
	// recordDeleteIn has the database, which is not 0, in the lower four of its
	// upper six bits.
	recordDeleteIn = recordDelete | Databases<<kindBits

	kindBits   = 2
	kindMask   = 1<<kindBits - 1
	manyWords  = 0xff >> kindBits
	lenBits    = 4
	smallState = 2
	longLen    = 1<<lenBits - 1
)

// ErrEffects is returned for a payload that this version cannot read.
var ErrEffects = errors.New("unreadable effects")

// encoder writes payloads of at most max bytes, as long as no single record is
// larger. Each payload can be read without the others.
type encoder struct {
	limits  *interner
	formats Formats
	max     int
	expect  int // bytes that the payload is expected to have
	parts   [][]byte
	buf     []byte
	dict    map[uint32]uint64
	// The record before, as the next one refers to it: meta is that of the
	// last put, if there was one.
	key      []byte
	deadline int64
	meta     uint32
	started  bool
}

func newEncoder(limits *interner, f Formats, max, expect int) *encoder {
	return &encoder{limits: limits, formats: f, max: max, expect: min(expect, max), dict: make(map[uint32]uint64)}
}

// put adds the full state of an entry.
func (enc *encoder) put(im shard.Image) { enc.add(im, nil) }

// add adds the state of an entry, as the delta if there is one.
func (enc *encoder) add(im shard.Image, d *delta) {
	start := enc.begin()
	if enc.appendPut(im, d); enc.full(start) {
		enc.begin()
		enc.appendPut(im, d)
	}
}

// remove adds that a key is gone.
func (enc *encoder) remove(db uint8, key []byte) {
	start := enc.begin()
	if enc.appendDelete(db, key); enc.full(start) {
		enc.begin()
		enc.appendDelete(db, key)
	}
}

// removeAll adds that all keys of a shard are gone, which it had when it was
// detached or at the cut before.
func (enc *encoder) removeAll(old *shard.Contents) {
	old.Each(func(ent shard.Entry) { enc.remove(enc.limits.get(ent.Meta()).limit.DB, ent.Key()) })
	old.Undo().Walk(func(im shard.Image, _ bool) { enc.remove(im.Space, im.Key) })
}

// system adds a system record; nil is that it is gone.
func (enc *encoder) system(k systemKey, value []byte) {
	start := enc.begin()
	if enc.buf = appendSystem(append(enc.buf, recordSystem), k, value); enc.full(start) {
		enc.begin()
		enc.buf = appendSystem(append(enc.buf, recordSystem), k, value)
	}
}

// included adds up to which clock batches may be in a snapshot.
func (enc *encoder) included(clock int64) {
	enc.begin()
	enc.buf = binary.AppendVarint(append(enc.buf, recordIncluded), clock)
}

// flush adds that no key is left, before anything else. false is that the format
// has no such record.
func (enc *encoder) flush() bool {
	if enc.formats.Effects < effectsFlush {
		return false
	}
	enc.begin()
	enc.buf = append(enc.buf, recordFlush)
	return true
}

// begin makes sure that there is a payload, and returns its length.
func (enc *encoder) begin() int {
	if len(enc.buf) == 0 {
		enc.buf = append(make([]byte, 0, enc.expect), enc.formats.Effects)
	}
	return len(enc.buf)
}

// full ends the payload without the record that begins at start, if that has
// made it too large and is not its only one.
func (enc *encoder) full(start int) bool {
	if len(enc.buf) <= enc.max || start == 1 {
		return false
	}
	enc.buf = enc.buf[:start]
	enc.cut()
	return true
}

func (enc *encoder) appendPut(im shard.Image, d *delta) {
	b := enc.buf
	kind := byte(recordPut)
	n := uint64(0)
	if im.Meta != enc.meta || !enc.started {
		kind = recordPutOf
		var known bool
		if n, known = enc.dict[im.Meta]; !known {
			l := enc.limits.get(im.Meta).limit
			b = appendLimit(append(b, recordLimit|l.DB<<kindBits), l)
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
		b = binary.AppendUvarint(append(b, d.base...), uint64(len(d.difference)))
		enc.buf = append(b, d.difference...)
		return
	}
	if len(im.State) != 8 { // most have one word
		enc.buf = enc.appendState(b, im.State)
		return
	}
	enc.buf = binary.AppendUvarint(b, binary.LittleEndian.Uint64(im.State))
}

// appendState adds a state under the limit of enc.meta.
func (enc *encoder) appendState(b, state []byte) []byte {
	if len(state) > 8*smallState {
		if k := enc.limits.get(enc.meta).limit.Algorithm.kind(); k.encodes(enc.formats.Effects) {
			return k.encode(b, state)
		}
	}
	for w := state; len(w) > 0; w = w[8:] {
		b = binary.AppendUvarint(b, binary.LittleEndian.Uint64(w))
	}
	return b
}

func (enc *encoder) appendDelete(db uint8, key []byte) {
	head := byte(recordDelete)
	if db != 0 {
		head = recordDeleteIn | db<<kindBits
	}
	enc.buf = enc.appendKey(append(enc.buf, head), key)
}

func (enc *encoder) appendKey(b, key []byte) []byte {
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
func (enc *encoder) cut() {
	if len(enc.buf) > 0 {
		enc.parts = append(enc.parts, enc.buf)
		enc.buf = nil
		clear(enc.dict)
		enc.key, enc.deadline, enc.started = enc.key[:0], 0, false
	}
}

// finish returns the payloads.
func (enc *encoder) finish() [][]byte {
	enc.cut()
	return enc.parts
}

// appendLimit appends a limit but for its database.
func appendLimit(b []byte, l Limit) []byte {
	b = append(b, byte(l.Algorithm), byte(l.Rounding), byte(l.Align))
	b = binary.AppendVarint(b, l.Limit)
	b = binary.AppendVarint(b, l.Period)
	b = binary.AppendVarint(b, l.Burst)
	if l.Algorithm.IsPolicy() {
		b = binary.AppendUvarint(b, uint64(l.Resets))
		b = binary.AppendUvarint(b, uint64(l.Scalings))
	}
	return b
}

// effect is one record of a payload: the state of a key, or its absence.
type effect struct {
	image shard.Image // Meta is not set, Space is
	limit int         // number in the dictionary; -1 for an absent key
	// changed tells that delta stands for the state, which the key itself makes
	// of it.
	changed bool
	delta   delta
}

// dictionaryLimit is what reading a payload needs of a limit of its dictionary.
type dictionaryLimit struct {
	kind   Algorithm
	db     uint8
	packed packed.Kind // of the kind
}

// sink takes what is in a payload beside the states of keys.
type sink interface {
	addLimit(Limit) // to the dictionary of the payload
	setSystem(systemKey, []byte)
	flush()
	included(clock int64)
}

// effects reads a payload. Its buffers serve one payload after the other.
type effects struct {
	d       decoder
	version byte
	begun   bool // a record has been read
	known   []dictionaryLimit
	limit   int // of the put before, -1 for none
	// The record before, as the next one refers to it.
	key      []byte
	deadline int64
	// arena holds the keys and states of the effects read since recycle.
	arena []byte
}

// open begins a payload.
func (r *effects) open(payload []byte) error {
	if len(payload) == 0 {
		return fmt.Errorf("%w: no version", ErrEffects)
	}
	switch v := payload[0]; {
	case v > effectsNewest:
		return fmt.Errorf("%w: version %d, this node knows %d to %d; upgrade it", ErrEffects, v, effectsOldest, effectsNewest)
	case v < effectsOldest:
		return fmt.Errorf("%w: version %d, this node knows %d to %d; it is from before the first release, wipe this node's data", ErrEffects, v, effectsOldest, effectsNewest)
	}
	*r = effects{d: decoder{b: payload[1:]}, version: payload[0], limit: -1, known: r.known[:0], key: r.key[:0], arena: r.arena[:0]}
	return nil
}

// more tells whether there is something left to read.
func (r *effects) more() bool { return len(r.d.b) > 0 }

// recycle makes the keys and states of the effects read so far invalid.
func (r *effects) recycle() { r.arena = r.arena[:0] }

// next reads the next record. What is no key's state goes to out; ok is false
// then.
func (r *effects) next(e *effect, out sink) (ok bool, err error) {
	head := r.d.byte()
	first := !r.begun
	r.begun = true
	e.changed = head == recordDelta && r.version >= effectsDelta
	if e.changed {
		if head = r.d.byte(); head&kindMask != recordPut && head&kindMask != recordPutOf {
			return false, fmt.Errorf("%w: bad delta", ErrEffects)
		}
	}
	switch kind := head & kindMask; kind {
	case recordLimit:
		l := Limit{Algorithm: Algorithm(r.d.byte()), Rounding: Rounding(r.d.byte()), Align: Align(r.d.byte())}
		l.Limit, l.Period, l.Burst = r.d.varint(), r.d.varint(), r.d.varint()
		l.DB = head >> kindBits
		if l.Algorithm.IsPolicy() {
			l.Resets, l.Scalings = uint16(r.d.uvarintMax(math.MaxUint16)), uint16(r.d.uvarintMax(math.MaxUint16))
		}
		if r.d.bad || l.needs() > r.version {
			return false, fmt.Errorf("%w: bad limit", ErrEffects)
		}
		if err := l.Validate(); err != nil {
			return false, fmt.Errorf("%w: limit: %w", ErrEffects, err)
		}
		r.known = append(r.known, dictionaryLimit{l.Algorithm, l.DB, l.Algorithm.kind().packed})
		out.addLimit(l)
		return false, nil
	case recordDelete:
		switch {
		case head == recordSystem:
			k, value := readSystem(&r.d, r.version)
			if r.d.bad {
				return false, fmt.Errorf("%w: bad system record", ErrEffects)
			}
			out.setSystem(k, value)
			return false, nil
		case head == recordFlush && r.version >= effectsFlush:
			if !first {
				return false, fmt.Errorf("%w: flush in the middle", ErrEffects)
			}
			out.flush()
			return false, nil
		case head == recordIncluded && r.version >= effectsDelta:
			clock := r.d.varint()
			if r.d.bad {
				return false, fmt.Errorf("%w: bad end", ErrEffects)
			}
			out.included(clock)
			return false, nil
		}
		*e = effect{limit: -1}
		if n := head >> kindBits; n > Databases && n < 2*Databases && r.version >= effectsData {
			e.image.Space = n - Databases
			head = recordDelete
		}
		e.image.Key = r.readKey()
		if r.d.bad || head != recordDelete {
			return false, fmt.Errorf("%w: bad deletion", ErrEffects)
		}
	default:
		words := uint64(head >> kindBits)
		if words == manyWords {
			words += r.d.uvarintMax(shard.MaxWords - manyWords)
		}
		if kind == recordPutOf {
			r.limit = int(r.d.uvarintMax(maxInterned))
		}
		e.image.Key = r.readKey()
		r.deadline += r.d.varint()
		e.image.Deadline = r.deadline
		at := len(r.arena)
		if r.d.bad || r.limit < 0 || r.limit >= len(r.known) {
			return false, fmt.Errorf("%w: bad state", ErrEffects)
		}
		e.limit, e.image.Space = r.limit, r.known[r.limit].db
		if e.changed {
			e.delta = delta{base: r.d.bytes(baseSize), difference: r.d.bytes(r.d.uvarintMax(mostDelta))}
			if r.d.bad {
				return false, fmt.Errorf("%w: bad delta", ErrEffects)
			}
			return true, nil
		}
		if words == 1 { // most of them
			r.arena = binary.LittleEndian.AppendUint64(r.arena, r.d.uvarint())
			r.check(r.arena[at:])
		} else {
			r.readState(int(words))
		}
		if r.d.bad {
			return false, fmt.Errorf("%w: bad state", ErrEffects)
		}
		e.image.State = r.arena[at:len(r.arena):len(r.arena)]
	}
	return true, nil
}

// readState reads a state under r.limit into the arena.
func (r *effects) readState(words int) {
	if words > smallState {
		if k := r.known[r.limit].kind.kind(); k.encodes(r.version) {
			r.arena = k.decode(r.arena, words, &r.d)
			return
		}
	}
	at := len(r.arena)
	for range words {
		r.arena = binary.LittleEndian.AppendUint64(r.arena, r.d.uvarint())
	}
	r.check(r.arena[at:])
}

// check refuses a state under r.limit that a value cannot be read from.
func (r *effects) check(state []byte) {
	if k := r.known[r.limit].packed; k != 0 && !checkCollection(k, state) {
		r.d.fail()
	}
}

// readKey reads a key into the arena.
func (r *effects) readKey() []byte {
	lens := r.d.byte()
	shared, rest := uint64(lens>>lenBits), uint64(lens&longLen)
	if shared == longLen {
		shared += r.d.uvarintMax(shard.MaxKeyLen)
	}
	if rest == longLen {
		rest += r.d.uvarintMax(shard.MaxKeyLen)
	}
	if shared > uint64(len(r.key)) || shared+rest > shard.MaxKeyLen {
		r.d.fail()
		return nil
	}
	r.key = append(r.key[:shared], r.d.bytes(rest)...)
	at := len(r.arena)
	r.arena = append(r.arena, r.key...)
	return r.arena[at:len(r.arena):len(r.arena)]
}
