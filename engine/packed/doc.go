// Package packed keeps a hash, a set, a sorted set or a list, the value of one key, in
// flat bytes without a Go pointer.
//
//   - Hash, Set, SortedSet and List are views of a value in a Buffer. They have the
//     operations of Redis's commands on these types.
//   - AppendWire writes a value in its shortest form, which depends on the contents and
//     their order alone; FromWire reads it. Nodes replicate, store and compare this form.
//   - Check refuses bytes that are not a value.
//
// A view treats a value without entries like an absent value (no bytes). When the last
// entry is removed, an empty value remains, and the caller deletes the key.
//
// A value may have free room after its contents, and has at most MaxValue bytes in all.
// The size of the room varies, and the index inside a value is valid in this process
// only. So values are compared, sent and stored in the form that AppendWire writes.
//
// Bytes that a view returns are part of the value. They are read-only, and valid until
// the next change through the view or its buffer.
//
// # Errors
//
// Only operations that add can fail: with ErrTooManyEntries, ErrTooLarge, or the error of
// Buffer.Splice. Nothing has changed then. Removing cannot fail.
//
// # Concurrency
//
// Nothing here is safe for concurrent use: the caller holds the key's lock.
//
// DESIGN.md beside this file has the layout, the costs and the reasons.
package packed

import "errors"

// Bounds of a value. The views check them when something is added.
const (
	// MaxEntries bounds the fields or members of a value, and MaxElements the elements of
	// a list, which needs no index of them.
	MaxEntries  = 65_536
	MaxElements = 262_144
	// MaxBytes bounds the contents: the length of what AppendWire writes.
	MaxBytes = 1 << 20
	// MaxValue bounds the value itself, with its index and room for changes. In a smaller
	// buffer, a value has fewer entries.
	MaxValue = 3 << 20
)

// These errors are returned when an entry cannot be added; nothing has changed.
var (
	// ErrTooManyEntries is returned for an entry beyond MaxEntries,
	// or an element beyond MaxElements.
	ErrTooManyEntries = errors.New("value has too many elements")
	// ErrTooLarge is returned for contents of more than MaxBytes.
	ErrTooLarge = errors.New("value is too large")
	// ErrNaN is returned for a score that is not a number.
	ErrNaN = errors.New("score is not a number")
)

// ErrDamaged is returned by Check and FromWire for bytes that are not a value of the
// kind.
var ErrDamaged = errors.New("damaged value")

// Kind is the type of a value. The numbers are part of values: they never change.
type Kind uint8

const (
	HashKind Kind = 1 + iota
	SetKind
	SortedSetKind
	ListKind
)

// Buffer holds the bytes of one value. *engine.Value is one.
type Buffer interface {
	// Bytes returns the value, empty while it is absent; read-only. After
	// Splice, up to seven extra bytes of any content may stand at its end.
	Bytes() []byte
	// Edit returns the same bytes for changes in place.
	Edit() []byte
	// Splice replaces the del bytes at offset at by ins bytes of any content, and returns
	// the whole value. On an error nothing has changed.
	Splice(at, del, ins int) ([]byte, error)
}
