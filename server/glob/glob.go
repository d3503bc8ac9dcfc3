// Package glob matches names against patterns in Redis's form: * ? [abc] [^abc] [a-z] and \
// before a literal character. As in Redis, a class without a closing bracket ends at the
// end of the pattern.
//
// Patterns and names come from clients, so the time is bounded. The time to compile a
// pattern is proportional to the pattern's length. Matching a name takes at most len(name)
// * (1 + len(pattern)/64) steps of a few nanoseconds. By contrast, Redis's recursion takes
// exponential time on patterns with many stars. A search that backtracks to the last star
// would take len(name)*len(pattern) steps.
package glob

import (
	"errors"
	"math/bits"
	"strings"
)

// MaxPattern is the length of the longest pattern, in bytes.
const MaxPattern = 1 << 10

// ErrTooLong is returned for a pattern above MaxPattern.
var ErrTooLong = errors.New("pattern is longer than 1024 bytes")

// Pattern is a compiled pattern. It is immutable.
type Pattern struct {
	text     string
	segments []segment // the parts before, between and after the stars
}

// Compile returns the compiled form of a pattern. It returns ErrTooLong for a pattern
// longer than MaxPattern bytes.
func Compile(pattern string) (*Pattern, error) {
	if len(pattern) > MaxPattern {
		return nil, ErrTooLong
	}
	p := &Pattern{text: pattern}
	for from := 0; ; {
		elements, next := split(pattern, from)
		p.segments = append(p.segments, newSegment(elements))
		if next < 0 {
			return p, nil
		}
		from = next
	}
}

// String returns the pattern as it was written.
func (p *Pattern) String() string { return p.text }

// Size returns the approximate memory of the pattern, in bytes.
func (p *Pattern) Size() int {
	n := len(p.text)
	for i := range p.segments {
		n += segmentSize + len(p.segments[i].literal) + 8*len(p.segments[i].masks)
	}
	return n
}

// Steps returns a bound of the steps to match a name of n bytes. A step takes a few
// nanoseconds.
func (p *Pattern) Steps(n int) int {
	steps := 1
	for i := range p.segments {
		steps = max(steps, p.segments[i].words)
	}
	return steps * (n + len(p.segments))
}

// Light reports whether matching takes at most one step for each character of a name.
func (p *Pattern) Light() bool { return p.Steps(1)-p.Steps(0) <= 1 }

// segmentSize is the memory of a segment in bytes, without the bytes of its text and masks.
const segmentSize = 64

// Match reports whether all of s matches.
func (p *Pattern) Match(s string) bool {
	first, last := &p.segments[0], &p.segments[len(p.segments)-1]
	if !first.at(s) {
		return false
	}
	if first == last {
		return len(s) == first.length
	}
	s = s[first.length:]
	if len(s) < last.length || !last.at(s[len(s)-last.length:]) {
		return false
	}
	s = s[:len(s)-last.length]
	// Take the leftmost place of each segment, because it leaves most of the name for the
	// segments after it.
	for i := 1; i < len(p.segments)-1; i++ {
		end := p.segments[i].find(s)
		if end < 0 {
			return false
		}
		s = s[end:]
	}
	return true
}

// element is the set of characters that match one position of a pattern.
type element [256 / 64]uint64

func (e *element) add(low, high byte) {
	if low > high {
		low, high = high, low
	}
	for c := int(low); c <= int(high); c++ {
		e[c/64] |= 1 << (c % 64)
	}
}

// inverse returns the characters that are not in e.
func (e element) inverse() element {
	for w := range e {
		e[w] = ^e[w]
	}
	return e
}

// size returns how many characters are in e.
func (e element) size() (n int) {
	for _, set := range e {
		n += bits.OnesCount64(set)
	}
	return n
}

// split parses the elements of pattern from a position to the next star or to the end. next
// is the position after the star; -1 at the end.
func split(pattern string, from int) (elements []element, next int) {
	for i := from; i < len(pattern); {
		var e element
		switch pattern[i] {
		case '*':
			return elements, i + 1
		case '?':
			e = element{}.inverse()
			i++
		case '[':
			i = e.class(pattern, i+1)
		case '\\':
			if i+1 < len(pattern) {
				i++
			}
			fallthrough
		default:
			e.add(pattern[i], pattern[i])
			i++
		}
		elements = append(elements, e)
	}
	return elements, -1
}

// class adds the class whose members begin at pattern[i], and returns the position after
// it.
func (e *element) class(pattern string, i int) int {
	negated := i < len(pattern) && pattern[i] == '^'
	if negated {
		i++
	}
	for ; i < len(pattern) && pattern[i] != ']'; i++ {
		switch {
		case pattern[i] == '\\' && i+1 < len(pattern):
			i++
			e.add(pattern[i], pattern[i])
		case i+2 < len(pattern) && pattern[i+1] == '-':
			e.add(pattern[i], pattern[i+2])
			i += 2
		default:
			e.add(pattern[i], pattern[i])
		}
	}
	if negated {
		*e = e.inverse()
	}
	return min(i+1, len(pattern))
}

// segment is a run of elements between two stars: a literal, or bits that say which
// characters match each element.
type segment struct {
	length  int
	literal string
	// masks has, for each character, a bit for each element that matches the character, in
	// words of 64 bits. It is nil for a literal.
	masks []uint64
	words int
}

// maxWords is how many words of 64 bits the longest segment needs.
const maxWords = MaxPattern / 64

func newSegment(elements []element) segment {
	g := segment{length: len(elements), words: (len(elements) + 63) / 64}
	var literal strings.Builder
	for i := range elements {
		if c, ok := elements[i].single(); ok {
			literal.WriteByte(c)
		}
	}
	if literal.Len() == len(elements) {
		g.literal, g.words = literal.String(), 0
		return g
	}
	g.masks = make([]uint64, 256*g.words)
	// For an element that most characters match, such as ?, write the characters that do
	// not match. So one byte of a pattern never costs 256 steps.
	most := make([]uint64, g.words)
	for i, e := range elements {
		if e.size() > 128 {
			most[i/64] |= 1 << (i % 64)
		}
	}
	for c := range 256 {
		copy(g.masks[c*g.words:], most)
	}
	for i, e := range elements {
		bit := uint64(1) << (i % 64)
		if most[i/64]&bit != 0 {
			e = e.inverse()
		}
		for w, left := range e {
			for ; left != 0; left &= left - 1 {
				c := 64*w + bits.TrailingZeros64(left)
				g.masks[c*g.words+i/64] ^= bit
			}
		}
	}
	return g
}

// single returns the element's character, if the element has exactly one.
func (e *element) single() (c byte, ok bool) {
	n := 0
	for w, set := range e {
		if set != 0 {
			n += bits.OnesCount64(set)
			c = byte(64*w + bits.TrailingZeros64(set))
		}
	}
	return c, n == 1
}

// at reports whether s begins with the segment.
func (g *segment) at(s string) bool {
	if g.masks == nil {
		return strings.HasPrefix(s, g.literal)
	}
	if len(s) < g.length {
		return false
	}
	for i := range g.length {
		if g.masks[int(s[i])*g.words+i/64]>>(i%64)&1 == 0 {
			return false
		}
	}
	return true
}

// find returns the position after the leftmost place of the segment in s; -1 if there is no
// such place.
//
// It is the Shift-And algorithm (Baeza-Yates and Gonnet, 1992): bit i of state is set if
// the elements up to i match the characters before the current position.
func (g *segment) find(s string) int {
	if g.masks == nil {
		i := strings.Index(s, g.literal)
		if i < 0 {
			return -1
		}
		return i + g.length
	}
	var state [maxWords]uint64
	last, bit := (g.length-1)/64, uint64(1)<<((g.length-1)%64)
	for i := range len(s) {
		mask := g.masks[int(s[i])*g.words:][:g.words]
		carry := uint64(1)
		for w := range mask {
			shifted := state[w]<<1 | carry
			carry = state[w] >> 63
			state[w] = shifted & mask[w]
		}
		if state[last]&bit != 0 {
			return i + 1
		}
	}
	return -1
}
