package engine

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/engine/packed"
	"github.com/headgate-io/headgate/shard"
)

// The first byte of every payload and snapshot chunk is a version: see Formats.
// A node that reads one which it does not know stops. If it skipped what it does not
// know, its table would differ from the log.
const (
	effectsOldest = 1 // that this build reads
	effectsNewest = 1 // that it reads, and writes where it is permitted
)

// Formats are the versions in which a replica writes; a cluster agrees on them.
type Formats struct {
	Effects byte // of payloads, and of the chunks of snapshots
}

// firstFormats are those of feature level 1.
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
	// recordDeleteIn has Databases and the database, which is not 0, in its upper
	// six bits.
	recordDeleteIn = recordDelete | algo.Databases<<kindBits

	kindBits   = 2
	kindMask   = 1<<kindBits - 1
	manyWords  = 0xff >> kindBits
	lenBits    = 4
	smallState = 2
	longLen    = 1<<lenBits - 1
)

// ErrEffects is returned for a payload that this version cannot read.
var ErrEffects = errors.New("unreadable effects")

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
	kind   algo.Algorithm
	db     uint8
	packed packed.Kind // of the kind
}

// sink takes what is in a payload beside the states of keys.
type sink interface {
	addLimit(algo.Limit) // to the dictionary of the payload
	setSystem(systemKey, []byte)
	flush()
	included(clock int64)
}

// effects reads a payload. Its buffers serve one payload after the other.
type effects struct {
	d     decoder
	begun bool // a record has been read
	known []dictionaryLimit
	limit int // of the put before, -1 for none
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
	if v := payload[0]; v < effectsOldest || v > effectsNewest {
		return fmt.Errorf("%w: version %d, this node knows %d to %d; upgrade it, or wipe its data if they are of a build from before the first release", ErrEffects, v, effectsOldest, effectsNewest)
	}
	*r = effects{d: decoder{b: payload[1:]}, limit: -1, known: r.known[:0], key: r.key[:0], arena: r.arena[:0]}
	return nil
}

// more reports whether there is something left to read.
func (r *effects) more() bool { return len(r.d.b) > 0 }

// recycle makes the keys and states of the effects read so far invalid.
func (r *effects) recycle() { r.arena = r.arena[:0] }

// next reads the next record. What is no key's state goes to out; ok is false
// then.
func (r *effects) next(e *effect, out sink) (ok bool, err error) {
	head := r.d.byte()
	first := !r.begun
	r.begun = true
	e.changed = head == recordDelta
	if e.changed {
		if head = r.d.byte(); head&kindMask != recordPut && head&kindMask != recordPutOf {
			return false, fmt.Errorf("%w: bad delta", ErrEffects)
		}
	}
	switch kind := head & kindMask; kind {
	case recordLimit:
		l := r.d.limit()
		l.DB = head >> kindBits
		if r.d.bad {
			return false, fmt.Errorf("%w: bad limit", ErrEffects)
		}
		if err := l.Validate(); err != nil {
			return false, fmt.Errorf("%w: limit: %w", ErrEffects, err)
		}
		r.known = append(r.known, dictionaryLimit{l.Algorithm, l.DB, traitsOf(l.Algorithm).packed})
		out.addLimit(l)
		return false, nil
	case recordDelete:
		switch {
		case head == recordSystem:
			k, value := readSystem(&r.d)
			if r.d.bad {
				return false, fmt.Errorf("%w: bad system record", ErrEffects)
			}
			out.setSystem(k, value)
			return false, nil
		case head == recordFlush:
			if !first {
				return false, fmt.Errorf("%w: flush in the middle", ErrEffects)
			}
			out.flush()
			return false, nil
		case head == recordIncluded:
			clock := r.d.varint()
			if r.d.bad {
				return false, fmt.Errorf("%w: bad end", ErrEffects)
			}
			out.included(clock)
			return false, nil
		}
		*e = effect{limit: -1}
		if n := head >> kindBits; n > algo.Databases && n < algo.Databases+algo.Spaces {
			e.image.Space = n - algo.Databases
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
		if k := traitsOf(r.known[r.limit].kind); k.encode != nil {
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
