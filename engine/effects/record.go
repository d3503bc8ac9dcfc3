package effects

import "encoding/binary"

// SystemKind is the subject of a system record. Kinds are part of the encoding of
// effects.
type SystemKind byte

const (
	// SystemCharged is the last batch that a node was charged; the record's name is the
	// node's id.
	SystemCharged SystemKind = 1
	// SystemScript is the text of a script, after a byte that says whether it was loaded.
	// The record's name is its SHA1 in hex.
	SystemScript SystemKind = 2
	// SystemPolicy is a record about policies; its name says which.
	SystemPolicy SystemKind = 3
)

const (
	// MaxSystemName and MaxSystemValue bound the name and the value of a
	// record, in bytes.
	MaxSystemName  = 255
	MaxSystemValue = 1 + 512<<10
)

// SystemKey names a system record.
type SystemKey struct {
	Kind SystemKind
	Name string
}

// AppendSystem encodes a record: kind, length of the name in a byte, name, the length of
// the value plus one, and the value. For a deleted record the length is 0, and there is
// no value.
func AppendSystem(b []byte, k SystemKey, value []byte) []byte {
	b = append(b, byte(k.Kind), byte(len(k.Name)))
	b = append(b, k.Name...)
	if value == nil {
		return append(b, 0)
	}
	b = binary.AppendUvarint(b, uint64(len(value))+1)
	return append(b, value...)
}

// readSystem reads the output of AppendSystem, in effects of a version. The value is a
// copy.
func readSystem(d *Decoder) (k SystemKey, value []byte) {
	k.Kind = SystemKind(d.Byte())
	k.Name = string(d.Bytes(uint64(d.Byte())))
	if n := d.UvarintMax(MaxSystemValue + 1); n > 0 {
		value = append([]byte{}, d.Bytes(n-1)...)
	}
	// A kind that the version does not know may have any meaning.
	switch {
	case k.Kind == SystemCharged:
	case k.Kind == SystemScript && (value == nil || len(value) > 0):
	case k.Kind == SystemPolicy && (value == nil || len(value) > 0):
	default:
		d.Fail()
	}
	return k, value
}
