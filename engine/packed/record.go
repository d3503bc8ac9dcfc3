package packed

import (
	"encoding/binary"
	"math"
)

// A record is one entry of a hash, set or sorted set:
//
//	hash        length, field, length, value
//	set         length, member
//	sorted set  score (8 bytes, little-endian), length, member
//
// The field or member is called the entry's key here.

const scoreSize = 8

// keyAt returns the key of the record at v[at:] and the offset after it.
func keyAt(v []byte, kind Kind, at int) (key []byte, end int) {
	if kind == SortedSetKind {
		at += scoreSize
	}
	n, at := length(v, at)
	return v[at : at+n : at+n], at + n
}

// valueAt returns the bytes whose length is at v[at:], and the offset after them.
func valueAt(v []byte, at int) (value []byte, end int) {
	n, at := length(v, at)
	return v[at : at+n : at+n], at + n
}

// recordEnd returns the offset after the record at v[at:].
func recordEnd(v []byte, kind Kind, at int) int {
	if kind == SortedSetKind {
		at += scoreSize
	}
	n, at := length(v, at)
	at += n
	if kind == HashKind {
		n, at = length(v, at)
		at += n
	}
	return at
}

// checkedRecord returns the key of a record that may be any bytes, and the offset after
// it. ok is false if they are not a record.
func checkedRecord(v []byte, kind Kind, at int) (key []byte, end int, ok bool) {
	if kind == SortedSetKind {
		if len(v)-at < scoreSize || math.IsNaN(scoreAt(v, at)) {
			return nil, 0, false
		}
		at += scoreSize
	}
	end, ok = checkedSized(v, at)
	if !ok {
		return nil, 0, false
	}
	key, _ = valueAt(v, at)
	if kind == HashKind {
		end, ok = checkedSized(v, end)
	}
	return key, end, ok
}

// entry holds the parts of a record; extra is the value of a hash's field.
type entry struct {
	key, extra []byte
	score      float64
}

// size returns how many bytes the record of e takes.
func (e *entry) size(kind Kind) int {
	switch kind {
	case HashKind:
		return sized(len(e.key)) + sized(len(e.extra))
	case SortedSetKind:
		return scoreSize + sized(len(e.key))
	}
	return sized(len(e.key))
}

// put writes the record of e at v[at:].
func (e *entry) put(v []byte, kind Kind, at int) {
	if kind == SortedSetKind {
		putScore(v, at, e.score)
		at += scoreSize
	}
	at = putSized(v, at, e.key)
	if kind == HashKind {
		putSized(v, at, e.extra)
	}
}

func scoreAt(v []byte, at int) float64 {
	return math.Float64frombits(binary.LittleEndian.Uint64(v[at:]))
}

func putScore(v []byte, at int, score float64) {
	binary.LittleEndian.PutUint64(v[at:], math.Float64bits(score))
}
