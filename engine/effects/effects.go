package effects

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/engine/packed"
	"github.com/headgate-io/headgate/shard"
)

// The first byte of every payload and snapshot chunk is a version: see Formats. A node
// stops at a version that it does not know. If it skipped the payload, its table would
// differ from the log.
const (
	oldest = 1 // oldest that this build reads
	Newest = 1 // newest that it reads, and writes if permitted
)

// Formats are the versions that a replica writes; a cluster agrees on them.
type Formats struct {
	Effects byte // of payloads, and of the chunks of snapshots
}

// FirstFormats are the formats of feature level 1.
var FirstFormats = Formats{Effects: oldest}

// Check returns an error unless this build can read the formats of f.
func (f Formats) Check() error {
	if f.Effects < oldest || f.Effects > Newest {
		return fmt.Errorf("this build does not know effects of version %d", f.Effects)
	}
	return nil
}

// A payload is a version byte, followed by the records below. The low two bits of a
// record's first byte are its kind. If they are recordDelete, all eight bits are the
// kind. Integers are varints unless stated otherwise.
//
// The limits of a payload are its dictionary, and are numbered from 0 in their order.
//
//	recordLimit   a limit: algorithm, rounding, align (1 byte each), limit, period,
//	              burst; a policy's limit also has resets and scalings
//	recordPut     the state of a key that has the same limit as the previous put:
//	              key, deadline, words
//	recordPutOf   the state of a key that has another limit: the limit's number in
//	              the dictionary, then the fields of recordPut
//	recordDelete  the absence of a key of database 0: key
//	recordDeleteIn
//	              the absence of a key of another database: key. Each database has
//	              a kind, recordDeleteIn + database<<kindBits
//	recordSystem  a system record, or its absence: see AppendSystem
//	recordFlush   deletes all keys; the first record of its payload
//	recordDelta   marks the put that follows, whose words are replaced by a delta:
//	              base (BaseSize bytes), length, difference (see differ)
//	recordIncluded
//	              the end of a snapshot: a clock. The snapshot may contain batches
//	              after its index, up to this clock
//
// The upper six bits of a limit's first byte are the number of a database, and every key
// with that limit is in this database. The upper six bits of a put's first byte are the
// number of state words. The value manyWords says that there are more: manyWords plus
// the varint that follows the byte. If a state has more than smallState words and its
// kind has the function encode, the state is written by encode.
//
// A key is written without the beginning that it shares with the key of the previous
// record. One byte holds two lengths, four bits each: of the shared beginning and of the
// rest. If a length is longLen or more, its four bits are longLen, and a varint after
// the byte has the remaining length. If both lengths have a varint, the shared
// beginning's comes first. A deadline is written as its difference to the deadline of
// the previous put, modulo 2^64. For the first record of a payload, the previous key is
// empty and the previous deadline is 0.
//
// In a table of a million keys of 16 bytes, the effect on one token bucket takes 16
// bytes. Key, deadline and state written in full would take 36 bytes.
const (
	recordLimit = iota
	recordPut
	recordPutOf
	recordDelete
	recordSystem   = recordDelete | 1<<kindBits
	recordFlush    = recordDelete | 2<<kindBits
	recordDelta    = recordDelete | 3<<kindBits
	recordIncluded = recordDelete | 4<<kindBits
	// recordDeleteIn has Databases and the database, which is not 0, in its upper six
	// bits.
	recordDeleteIn = recordDelete | algo.Databases<<kindBits

	kindBits   = 2
	kindMask   = 1<<kindBits - 1
	manyWords  = 0xff >> kindBits
	lenBits    = 4
	smallState = 2
	longLen    = 1<<lenBits - 1
)

// mostLimits bounds the number of a limit in a payload's dictionary.
const mostLimits = 1 << 20

// ErrEffects is returned for a payload that this version cannot read.
var ErrEffects = errors.New("unreadable effects")

// Effect is one record of a payload: the state of a key, or its absence.
type Effect struct {
	Image shard.Image // its Space is set, its Meta is not
	Limit int         // number in the dictionary; -1 for an absent key
	// Changed is set if Delta replaces the state: the new state follows from the key's
	// present state and Delta.
	Changed bool
	Delta   Delta
}

// dictionaryLimit is what the reader needs of a limit in the dictionary.
type dictionaryLimit struct {
	kind   algo.Algorithm
	db     uint8
	packed packed.Kind // of the kind
}

// Sink receives the records of a payload that are not states of keys.
type Sink interface {
	AddLimit(algo.Limit) // to the dictionary of the payload
	SetSystem(SystemKey, []byte)
	Flush()
	Included(clock int64)
}

// Reader reads payloads. It reuses its buffers for each payload.
type Reader struct {
	d     Decoder
	begun bool // a record has been read
	known []dictionaryLimit
	limit int // of the put before, -1 for none
	// The record before, as the next one refers to it.
	key      []byte
	deadline int64
	// arena holds the keys and states of the effects read since recycle.
	arena []byte
}

// Open begins a payload.
func (r *Reader) Open(payload []byte) error {
	if len(payload) == 0 {
		return fmt.Errorf("%w: no version", ErrEffects)
	}
	if v := payload[0]; v < oldest || v > Newest {
		return fmt.Errorf("%w: version %d, this node knows %d to %d; upgrade this node. If this node's data is from before the first release, wipe the data", ErrEffects, v, oldest, Newest)
	}
	*r = Reader{d: Decoder{B: payload[1:]}, limit: -1, known: r.known[:0], key: r.key[:0], arena: r.arena[:0]}
	return nil
}

// Held returns how many bytes of keys and states it has read since Recycle.
func (r *Reader) Held() int { return len(r.arena) }

// Kind returns the kind of a limit in the payload's dictionary.
func (r *Reader) Kind(limit int) algo.Algorithm { return r.known[limit].kind }

// More reports whether there is something left to read.
func (r *Reader) More() bool { return len(r.d.B) > 0 }

// Recycle makes the keys and states of the effects read so far invalid.
func (r *Reader) Recycle() { r.arena = r.arena[:0] }

// Next reads the next record into e. If ok is false, the record is not a key's
// state, and sink receives the record.
func (r *Reader) Next(e *Effect, sink Sink) (ok bool, err error) {
	head := r.d.Byte()
	first := !r.begun
	r.begun = true
	e.Changed = head == recordDelta
	if e.Changed {
		if head = r.d.Byte(); head&kindMask != recordPut && head&kindMask != recordPutOf {
			return false, fmt.Errorf("%w: bad delta", ErrEffects)
		}
	}
	switch kind := head & kindMask; kind {
	case recordLimit:
		l := r.d.limit()
		l.DB = head >> kindBits
		if r.d.Bad {
			return false, fmt.Errorf("%w: bad limit", ErrEffects)
		}
		if err := l.Validate(); err != nil {
			return false, fmt.Errorf("%w: limit: %w", ErrEffects, err)
		}
		r.known = append(r.known, dictionaryLimit{l.Algorithm, l.DB, codecOf(l.Algorithm).packed})
		sink.AddLimit(l)
		return false, nil
	case recordDelete:
		switch {
		case head == recordSystem:
			k, value := readSystem(&r.d)
			if r.d.Bad {
				return false, fmt.Errorf("%w: bad system record", ErrEffects)
			}
			sink.SetSystem(k, value)
			return false, nil
		case head == recordFlush:
			if !first {
				return false, fmt.Errorf("%w: flush in the middle", ErrEffects)
			}
			sink.Flush()
			return false, nil
		case head == recordIncluded:
			clock := r.d.Varint()
			if r.d.Bad {
				return false, fmt.Errorf("%w: bad end", ErrEffects)
			}
			sink.Included(clock)
			return false, nil
		}
		*e = Effect{Limit: -1}
		if n := head >> kindBits; n > algo.Databases && n < algo.Databases+algo.Spaces {
			e.Image.Space = n - algo.Databases
			head = recordDelete
		}
		e.Image.Key = r.readKey()
		if r.d.Bad || head != recordDelete {
			return false, fmt.Errorf("%w: bad deletion", ErrEffects)
		}
	default:
		words := uint64(head >> kindBits)
		if words == manyWords {
			words += r.d.UvarintMax(shard.MaxWords - manyWords)
		}
		if kind == recordPutOf {
			r.limit = int(r.d.UvarintMax(mostLimits))
		}
		e.Image.Key = r.readKey()
		r.deadline += r.d.Varint()
		e.Image.Deadline = r.deadline
		at := len(r.arena)
		if r.d.Bad || r.limit < 0 || r.limit >= len(r.known) {
			return false, fmt.Errorf("%w: bad state", ErrEffects)
		}
		e.Limit, e.Image.Space = r.limit, r.known[r.limit].db
		if e.Changed {
			e.Delta = Delta{Base: r.d.Bytes(BaseSize), Difference: r.d.Bytes(r.d.UvarintMax(mostDelta))}
			if r.d.Bad {
				return false, fmt.Errorf("%w: bad delta", ErrEffects)
			}
			return true, nil
		}
		if words == 1 { // the usual case
			r.arena = binary.LittleEndian.AppendUint64(r.arena, r.d.Uvarint())
			r.check(r.arena[at:])
		} else {
			r.readState(int(words))
		}
		if r.d.Bad {
			return false, fmt.Errorf("%w: bad state", ErrEffects)
		}
		e.Image.State = r.arena[at:len(r.arena):len(r.arena)]
	}
	return true, nil
}

// readState reads a state under r.limit into the arena.
func (r *Reader) readState(words int) {
	if words > smallState {
		if k := codecOf(r.known[r.limit].kind); k.encode != nil {
			r.arena = k.decode(r.arena, words, &r.d)
			return
		}
	}
	at := len(r.arena)
	for range words {
		r.arena = binary.LittleEndian.AppendUint64(r.arena, r.d.Uvarint())
	}
	r.check(r.arena[at:])
}

// check refuses a state under r.limit that is not a value.
func (r *Reader) check(state []byte) {
	if k := r.known[r.limit].packed; k != 0 && !checkCollection(k, state) {
		r.d.Fail()
	}
}

// readKey reads a key into the arena.
func (r *Reader) readKey() []byte {
	lens := r.d.Byte()
	shared, rest := uint64(lens>>lenBits), uint64(lens&longLen)
	if shared == longLen {
		shared += r.d.UvarintMax(shard.MaxKeyLen)
	}
	if rest == longLen {
		rest += r.d.UvarintMax(shard.MaxKeyLen)
	}
	if shared > uint64(len(r.key)) || shared+rest > shard.MaxKeyLen {
		r.d.Fail()
		return nil
	}
	r.key = append(r.key[:shared], r.d.Bytes(rest)...)
	at := len(r.arena)
	r.arena = append(r.arena, r.key...)
	return r.arena[at:len(r.arena):len(r.arena)]
}
