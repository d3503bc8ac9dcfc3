package packed

import (
	"encoding/binary"
	"iter"
)

// List is a view of elements in order. Indexes count from 0 at the front. To find an
// index, the view walks from the nearer end.
//
// The value is little-endian. It has a byte with the kind, three bytes of 0, and three
// numbers of 4 bytes: the number of elements, where the elements begin, and where they
// end. Then come the elements, with room before and after them. An element consists of
// its length (a varint), its bytes, and the size of these two parts, so that a walk can
// go backward. The size is also a varint, but with its bytes in reverse order.
type List struct {
	b Buffer
	v []byte
}

const (
	listCount  = 4
	listFirst  = 8
	listEnd    = 12
	listHeader = 16

	// listSmall is the size up to which a list has no unused room.
	listSmall = 256
)

// NewList returns a view of the value in b, which is a list or absent.
func NewList(b Buffer) List { return List{b: b, v: b.Bytes()} }

func (l *List) get(at int) int { return int(binary.LittleEndian.Uint32(l.v[at:])) }

func (l *List) set(at, n int) { binary.LittleEndian.PutUint32(l.v[at:], uint32(n)) }

// Len returns the number of elements.
func (l *List) Len() int {
	if len(l.v) == 0 {
		return 0
	}
	return l.get(listCount)
}

// bounds returns where the elements begin and end.
func (l *List) bounds() (first, end int) {
	if len(l.v) == 0 {
		return listHeader, listHeader
	}
	return l.get(listFirst), l.get(listEnd)
}

// elementSize returns how many bytes an element of n bytes takes.
func elementSize(n int) int {
	n = sized(n)
	return n + lengthSize(n)
}

// putElement writes element at v[at:] and returns the offset after it.
func putElement(v []byte, at int, element []byte) int {
	end := putSized(v, at, element)
	n := end - at
	size := lengthSize(n)
	for i := size - 1; i >= 0; i-- {
		v[end+i] = byte(n) | 0x80
		n >>= 7
	}
	v[end] &= 0x7f
	return end + size
}

// next returns the element at v[at:] and the offset after it.
func (l *List) next(at int) (element []byte, end int) {
	element, end = valueAt(l.v, at)
	return element, end + lengthSize(end-at)
}

// previous returns the offset of the element that ends before v[end:].
func (l *List) previous(end int) int {
	n := 0
	for shift := 0; ; shift += 7 {
		end--
		b := l.v[end]
		n |= int(b&0x7f) << shift
		if b < 0x80 {
			return end - n
		}
	}
}

// offset returns the offset of an element, or for Len() that after the last.
func (l *List) offset(index int) int {
	first, end := l.bounds()
	n := l.Len()
	if index <= n/2 {
		for range index {
			_, first = l.next(first)
		}
		return first
	}
	for range n - index {
		end = l.previous(end)
	}
	return end
}

// At returns an element, 0 <= index < Len().
func (l *List) At(index int) []byte {
	element, _ := l.next(l.offset(index))
	return element
}

// PushFront puts elements before the first, one after another, so that the last of them
// becomes the first: all, or none with an error. They must not lie in the list; the same
// holds for the methods below.
func (l *List) PushFront(elements [][]byte) error {
	first, _ := l.bounds()
	size, err := l.fits(elements)
	if err != nil {
		return err
	}
	at, err := l.replace(first, 0, size)
	if err != nil {
		return err
	}
	for i := len(elements) - 1; i >= 0; i-- {
		at = putElement(l.v, at, elements[i])
	}
	l.set(listCount, l.Len()+len(elements))
	return nil
}

// PushFrontTo is PushFront to a list that then keeps its first most elements, with
// len(elements) <= most: removed elements make room for new ones.
func (l *List) PushFrontTo(most int, elements [][]byte) error {
	n, keep := l.Len(), most-len(elements)
	if n <= keep {
		return l.PushFront(elements)
	}
	_, end := l.bounds()
	kept := l.offset(keep)
	l.v = l.b.Edit()
	l.set(listEnd, kept)
	l.set(listCount, keep)
	if err := l.PushFront(elements); err != nil {
		l.set(listEnd, end)
		l.set(listCount, n)
		return err
	}
	l.shrink()
	return nil
}

// PushBack puts elements after the last: all, or none with an error.
func (l *List) PushBack(elements [][]byte) error {
	_, end := l.bounds()
	size, err := l.fits(elements)
	if err != nil {
		return err
	}
	at, err := l.replace(end, 0, size)
	if err != nil {
		return err
	}
	for _, e := range elements {
		at = putElement(l.v, at, e)
	}
	l.set(listCount, l.Len()+len(elements))
	return nil
}

// fits returns the size of elements, or the error if they cannot be added.
func (l *List) fits(elements [][]byte) (size int, err error) {
	if l.Len()+len(elements) > MaxElements {
		return 0, ErrTooManyEntries
	}
	for _, e := range elements {
		if size += elementSize(len(e)); size > maxContents {
			return 0, ErrTooLarge
		}
	}
	return size, nil
}

// Insert puts element before the one at index, 0 <= index <= Len().
func (l *List) Insert(index int, element []byte) error {
	if l.Len() == MaxElements {
		return ErrTooManyEntries
	}
	at, err := l.replace(l.offset(index), 0, elementSize(len(element)))
	if err != nil {
		return err
	}
	putElement(l.v, at, element)
	l.set(listCount, l.Len()+1)
	return nil
}

// Set replaces an element, 0 <= index < Len().
func (l *List) Set(index int, element []byte) error {
	at := l.offset(index)
	_, end := l.next(at)
	at, err := l.replace(at, end-at, elementSize(len(element)))
	if err != nil {
		return err
	}
	putElement(l.v, at, element)
	return nil
}

// Range visits the elements from, from+1, … up to, not including, to, with 0 <=
// from <= to <= Len(). The list must not change meanwhile.
func (l *List) Range(from, to int) iter.Seq2[int, []byte] {
	return func(yield func(index int, element []byte) bool) { l.each(from, to, yield) }
}

func (l *List) each(from, to int, yield func(index int, element []byte) bool) {
	at := l.offset(from)
	for i := from; i < to; i++ {
		e, end := l.next(at)
		if !yield(i, e) {
			return
		}
		at = end
	}
}

// Backward visits the elements of Range from the last to the first.
func (l *List) Backward(from, to int) iter.Seq2[int, []byte] {
	return func(yield func(index int, element []byte) bool) { l.eachBackward(from, to, yield) }
}

func (l *List) eachBackward(from, to int, yield func(index int, element []byte) bool) {
	at := l.offset(to)
	for i := to - 1; i >= from; i-- {
		at = l.previous(at)
		if e, _ := valueAt(l.v, at); !yield(i, e) {
			return
		}
	}
}

// RemoveRange removes the elements of Range.
func (l *List) RemoveRange(from, to int) {
	if from >= to {
		return
	}
	n := l.Len() - (to - from)
	at, end := l.offset(from), l.offset(to)
	_, _ = l.replace(at, end-at, 0) // a shorter value cannot fail
	l.set(listCount, n)
}

// RemoveEqual removes elements that equal element: the first count of them, the last
// -count, or for 0 all. It returns how many.
func (l *List) RemoveEqual(element []byte, count int) int {
	n := l.Len()
	if n == 0 {
		return 0
	}
	first, end := l.bounds()
	removed, kept := 0, first
	if count >= 0 {
		// The kept elements move to the front.
		for at := first; at < end; {
			e, next := l.next(at)
			if (count == 0 || removed < count) && string(e) == string(element) {
				if removed++; removed == 1 {
					l.v = l.b.Edit()
				}
			} else {
				if removed > 0 {
					copy(l.v[kept:], l.v[at:next])
				}
				kept += next - at
			}
			at = next
		}
		end = kept
	} else {
		kept = end
		for at := end; at > first; {
			next := at
			at = l.previous(at)
			if e, _ := valueAt(l.v, at); removed < -count && string(e) == string(element) {
				if removed++; removed == 1 {
					l.v = l.b.Edit()
				}
			} else {
				kept -= next - at
				if removed > 0 {
					copy(l.v[kept:], l.v[at:next])
				}
			}
		}
		first = kept
	}
	if removed > 0 {
		l.set(listCount, n-removed)
		l.set(listFirst, first)
		l.set(listEnd, end)
		l.shrink()
	}
	return removed
}
