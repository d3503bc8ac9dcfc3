// Package packed keeps a hash, a set, a sorted set or a list in flat bytes,
// without a Go pointer: the value of one key.
//
//   - Hash, Set, SortedSet and List are views of a value in a Buffer. They have
//     what Redis's commands on these types need.
//   - AppendWire writes a value in its shortest form, which depends on the
//     contents and their order alone; FromWire reads it. It is what is
//     replicated and kept, and what nodes are compared by.
//   - Check refuses bytes that are no value.
//
// A value without entries and an absent one (no bytes) are alike to a view.
// Removing the last entry leaves an empty value: the caller deletes the key.
//
// A value may have room beyond its contents, at most MaxValue bytes in all: it
// is no function of the contents, and the index in it is good in this process
// only. So values are compared, sent and stored as AppendWire gives them.
//
// Bytes that a view returns lie in the value: they are read only, and die with
// the next change through the view or its buffer.
//
// # Errors
//
// Only operations that add can fail: with ErrTooManyEntries, ErrTooLarge, or
// what Buffer.Splice returned. Nothing has changed then. Removing cannot fail.
//
// # Concurrency
//
// None of it is safe for concurrent use: the caller holds the key's lock.
//
// DESIGN.md beside this file has the layout, the costs and the reasons.
package packed

import "errors"

// Bounds of a value. Those on adding are checked by the views.
const (
	// MaxEntries is how many fields or members a value has at most, and
	// MaxElements how many elements a list has, which needs no index of them.
	MaxEntries  = 65_536
	MaxElements = 262_144
	// MaxBytes bounds the contents: the length of what AppendWire writes.
	MaxBytes = 1 << 20
	// MaxValue bounds the value itself, with its index and room for changes. A
	// buffer that does not take as much has fewer entries.
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

// ErrDamaged is returned by Check and FromWire for bytes that are no value of
// the kind.
var ErrDamaged = errors.New("damaged value")

// Kind is what a value is. The numbers are in values: they stay for ever.
type Kind uint8

const (
	HashKind Kind = 1 + iota
	SetKind
	SortedSetKind
	ListKind
)

// Buffer holds the bytes of one value. *engine.Value is one.
type Buffer interface {
	// Bytes returns the value, which has no bytes while it is absent; read
	// only. Zero to seven bytes of any content may follow what Splice made.
	Bytes() []byte
	// Edit returns the same for changes in place.
	Edit() []byte
	// Splice makes the del bytes at offset at into ins bytes of any content and
	// returns the whole value. On an error nothing has changed.
	Splice(at, del, ins int) ([]byte, error)
}
