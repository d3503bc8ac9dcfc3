package shard

import "encoding/binary"

// Image is the full state of one entry outside the table.
type Image struct {
	Key      []byte
	Meta     uint32
	Deadline int64
	State    []byte // 8 bytes a word, little-endian
	Space    uint8  // of the key; set by Undo.Walk, not encoded
}

// The encoding of an entry is little-endian: the deadline as int64, then the record in the
// form that it has in the arena (meta, lens, state, key).
const imageHeader = 8 + recordHeader

// AppendTo appends the encoding of the entry's full state to dst.
func (e Entry) AppendTo(dst []byte) []byte {
	dst = binary.LittleEndian.AppendUint64(dst, uint64(e.slot.deadline))
	return append(dst, e.rec...)
}

// Image returns the entry's state. Key and State refer to the table's own bytes, as in
// Entry.Key and Entry.State.
func (e Entry) Image() Image {
	return Image{Key: e.Key(), Meta: e.Meta(), Deadline: e.Deadline(), State: e.State()}
}

// AppendTo appends the encoding of the image to dst. The key must have at most MaxKeyLen
// bytes. The state must be a whole number of words, at most MaxWords.
func (im Image) AppendTo(dst []byte) []byte {
	dst = binary.LittleEndian.AppendUint64(dst, uint64(im.Deadline))
	dst = binary.LittleEndian.AppendUint32(dst, im.Meta)
	dst = binary.LittleEndian.AppendUint32(dst, packLens(len(im.Key), len(im.State)/8))
	dst = append(dst, im.State...)
	return append(dst, im.Key...)
}

// decodeEntry decodes an entry from b. Key and State of the image are parts of b.
func decodeEntry(b []byte) Image {
	state := len(b) - keyLen(b[8:])
	return Image{
		Key:      b[state:len(b):len(b)],
		Meta:     binary.LittleEndian.Uint32(b[8:]),
		Deadline: int64(binary.LittleEndian.Uint64(b)),
		State:    b[imageHeader:state:state],
	}
}

// Put makes the entry of im.Key equal to im, whether the entry exists or not. hash must be
// as for Find. Put takes over the caller's reference to im.Meta. It calls Config.Release
// for the meta that it replaces, even if that is the same. It may evict other entries, and
// fails for the same reasons as Insert and Resize; then nothing has changed.
func (s *Shard) Put(hash uint64, im Image, now int64) error {
	words := len(im.State) / 8
	e, ok := s.Find(hash, im.Key)
	var err error
	if ok {
		s.Touch(e)
		e, err = s.Resize(e, hash, words, now)
	} else {
		e, err = s.Insert(hash, im.Key, im.Meta, words, im.Deadline, now)
	}
	if err != nil {
		return err
	}
	if ok && s.table.release != nil {
		s.table.release(s, e.Meta())
	}
	e.SetMeta(im.Meta)
	e.SetDeadline(im.Deadline)
	copy(e.State(), im.State)
	return nil
}

// Restore does the same as Put, but ignores the memory limit and evicts nothing, so it does
// not fail.
func (s *Shard) Restore(hash uint64, im Image, now int64) {
	s.unbounded = true
	err := s.Put(hash, im, now)
	s.unbounded = false
	if err != nil {
		panic("shard: restore: " + err.Error()) // not an image of an entry
	}
}
