package shard

import "encoding/binary"

// A record, in the arena, is little-endian:
//
//	offset 0  meta   uint32
//	offset 4  lens   uint32: key length in the low 17 bits, words above, at
//	                 most mostLens
//	offset 8  state  8 bytes a word
//	…         key
//
// The state precedes the key so that words are always 8-byte aligned. The slice of a
// record is as long as the record, which shows how many words the record has. For
// records in chunks, lens also has this number, because they have far fewer words than
// mostLens.
const (
	recordHeader = 8
	keyLenBits   = 17
	keyLenMask   = 1<<keyLenBits - 1
	mostLens     = 1<<(32-keyLenBits) - 1
)

func packLens(key, words int) uint32 {
	return uint32(min(words, mostLens))<<keyLenBits | uint32(key)
}

func recordSize(key, words int) int { return recordHeader + 8*words + key }

// keyLen returns the length of the key of a record.
func keyLen(rec []byte) int { return int(binary.LittleEndian.Uint32(rec[4:]) & keyLenMask) }

// Entry is a handle to one key of a shard. It is valid until the next Insert, Put, Resize,
// Delete or Sweep on the shard, or Unlock. The zero Entry refers to no entry.
type Entry struct {
	slot *slot
	rec  []byte // header, state, key
}

// Key returns the key's bytes in the table. The caller must not change or keep them.
func (e Entry) Key() []byte { return e.rec[len(e.rec)-keyLen(e.rec):] }

// Meta returns the word that the caller attached to the record.
func (e Entry) Meta() uint32 { return binary.LittleEndian.Uint32(e.rec) }

// SetMeta replaces the meta word; Config.Release is not called.
func (e Entry) SetMeta(meta uint32) { binary.LittleEndian.PutUint32(e.rec, meta) }

// Deadline returns the last moment, in ns, at which the entry still matters.
func (e Entry) Deadline() int64 { return e.slot.deadline }

// SetDeadline sets the deadline in ns; MaxInt64 means never.
func (e Entry) SetDeadline(deadline int64) { e.slot.deadline = deadline }

// Expired reports whether the deadline has passed.
func (e Entry) Expired(now int64) bool { return now > e.slot.deadline }

// Words returns the number of state words.
func (e Entry) Words() int { return (len(e.rec) - recordHeader - keyLen(e.rec)) >> 3 }

// Word returns state word i, 0 <= i < Words(). For other i it panics or returns bytes of
// the key.
func (e Entry) Word(i int) uint64 {
	return binary.LittleEndian.Uint64(e.rec[recordHeader+8*i:])
}

// SetWord sets state word i, 0 <= i < Words().
func (e Entry) SetWord(i int, v uint64) {
	binary.LittleEndian.PutUint64(e.rec[recordHeader+8*i:], v)
}

// State returns the state's bytes in the table: 8 bytes per word, little-endian. The caller
// may change them.
func (e Entry) State() []byte {
	n := len(e.rec) - keyLen(e.rec)
	return e.rec[recordHeader:n:n]
}

// Size returns how many bytes the entry takes: its slot and its record's size class. It
// leaves out the unused part of segments and chunks.
func (e Entry) Size() int {
	if len(e.rec) > maxSmall {
		return slotSize + cap(e.rec)
	}
	return slotSize + int(classes.size[classes.of(len(e.rec))])
}
