package lua

import "strings"

const (
	// maxCaptures is Lua's bound.
	maxCaptures = 32
	// maxPatternDepth bounds the matcher's recursion, which goes as deep as a
	// pattern has repetitions and captures.
	maxPatternDepth = 4000
	// patternBatch is how many steps a matcher makes between two charges.
	patternBatch = 256
)

// The size of a capture that has none yet.
const (
	captureOpen     = -1
	capturePosition = -2
)

// capture is a part of the subject, or a position in it.
type capture struct{ at, size int }

// matcher matches one pattern against one subject. Positions are indices of the
// subject; -1 means no match.
type matcher struct {
	t        *Thread
	subject  string
	pattern  string
	level    int // captures begun
	depth    int
	steps    int // not yet charged
	captures [maxCaptures]capture
}

// newMatcher prepares pattern up to its first zero byte.
func newMatcher(t *Thread, subject, pattern string) matcher {
	t.Step(len(pattern) / 64)
	if i := strings.IndexByte(pattern, 0); i >= 0 {
		pattern = pattern[:i]
	}
	return matcher{t: t, subject: subject, pattern: pattern}
}

// matchAt returns the end of the match that begins at s, for the pattern from p on.
func (m *matcher) matchAt(s, p int) int {
	m.level = 0
	m.depth = 0
	return m.match(s, p)
}

// settle charges what the matcher has done.
func (m *matcher) settle() {
	m.t.Step(m.steps / 2)
	m.steps = 0
}

// step counts one look at a byte.
func (m *matcher) step() {
	m.steps++
	if m.steps >= patternBatch {
		m.settle()
	}
}

// match matches the pattern from p on at s. It calls itself for parts that it may have to
// try again: repetitions and captures.
func (m *matcher) match(s, p int) int {
	if m.depth++; m.depth > maxPatternDepth {
		m.t.Errorf("pattern too complex")
	}
	end := m.matchItems(s, p)
	m.depth--
	return end
}

func (m *matcher) matchItems(s, p int) int {
	for p < len(m.pattern) {
		m.step()
		switch c := m.pattern[p]; c {
		case '(':
			if p+1 < len(m.pattern) && m.pattern[p+1] == ')' {
				return m.openCapture(s, p+2, capturePosition)
			}
			return m.openCapture(s, p+1, captureOpen)
		case ')':
			return m.closeCapture(s, p+1)
		case '$':
			if p+1 == len(m.pattern) {
				if s == len(m.subject) {
					return s
				}
				return -1
			}
		case '%':
			if p+1 == len(m.pattern) {
				break // classEnd raises the error
			}
			switch c := m.pattern[p+1]; {
			case c == 'b':
				if s = m.balance(s, p+2); s < 0 {
					return -1
				}
				p += 4
				continue
			case c == 'f':
				if p += 2; p >= len(m.pattern) || m.pattern[p] != '[' {
					m.t.Errorf("missing '[' after '%%f' in pattern")
				}
				next := m.classEnd(p)
				if m.inSet(m.before(s), p, next-1) || !m.inSet(m.at(s), p, next-1) {
					return -1
				}
				p = next
				continue
			case isDecimal(c):
				if s = m.again(s, c); s < 0 {
					return -1
				}
				p += 2
				continue
			}
		}
		next := m.classEnd(p)
		var repeat byte
		if next < len(m.pattern) {
			repeat = m.pattern[next]
		}
		switch repeat {
		case '?':
			if m.single(s, p, next) {
				if end := m.match(s+1, next+1); end >= 0 {
					return end
				}
			}
			p = next + 1
		case '*':
			return m.longest(s, s, p, next)
		case '+':
			if !m.single(s, p, next) {
				return -1
			}
			return m.longest(s, s+1, p, next)
		case '-':
			return m.shortest(s, p, next)
		default:
			if !m.single(s, p, next) {
				return -1
			}
			s++
			p = next
		}
	}
	return s
}

// at returns the byte at s, zero after the end; before is the one ahead of it.
func (m *matcher) at(s int) byte {
	if s < len(m.subject) {
		return m.subject[s]
	}
	return 0
}

func (m *matcher) before(s int) byte {
	if s == 0 {
		return 0
	}
	return m.subject[s-1]
}

// longest matches the class pattern[p:next] as often as possible from s on, and then less
// often until the rest of the pattern matches too. It matches at least up to least, which
// is s or the byte after s.
func (m *matcher) longest(s, least, p, next int) int {
	most := least
	for m.single(most, p, next) {
		most++
		m.step()
	}
	for ; most >= least; most-- {
		if end := m.match(most, next+1); end >= 0 {
			return end
		}
	}
	return -1
}

// shortest matches the class as few times as possible.
func (m *matcher) shortest(s, p, next int) int {
	for {
		if end := m.match(s, next+1); end >= 0 {
			return end
		}
		if !m.single(s, p, next) {
			return -1
		}
		s++
		m.step()
	}
}

// openCapture begins a capture at s and matches the rest.
func (m *matcher) openCapture(s, p, size int) int {
	if m.level >= maxCaptures {
		m.t.Errorf("too many captures")
	}
	m.captures[m.level] = capture{s, size}
	m.level++
	end := m.match(s, p)
	if end < 0 {
		m.level--
	}
	return end
}

// closeCapture ends the youngest open capture at s and matches the rest.
func (m *matcher) closeCapture(s, p int) int {
	i := m.level - 1
	for i >= 0 && m.captures[i].size != captureOpen {
		i--
	}
	if i < 0 {
		m.t.Errorf("invalid pattern capture")
	}
	m.captures[i].size = s - m.captures[i].at
	end := m.match(s, p)
	if end < 0 {
		m.captures[i].size = captureOpen
	}
	return end
}

// again matches what the capture with the digit c matched.
func (m *matcher) again(s int, c byte) int {
	i := int(c) - '1'
	if i < 0 || i >= m.level || m.captures[i].size == captureOpen {
		m.t.Errorf("invalid capture index")
	}
	size := m.captures[i].size
	if size < 0 || len(m.subject)-s < size {
		return -1
	}
	m.steps += size / 8
	at := m.captures[i].at
	if m.subject[at:at+size] != m.subject[s:s+size] {
		return -1
	}
	return s + size
}

// balance matches from one of the two bytes at p to the other of the same level.
func (m *matcher) balance(s, p int) int {
	if p+1 >= len(m.pattern) {
		m.t.Errorf("unbalanced pattern")
	}
	opening, closing := m.pattern[p], m.pattern[p+1]
	if s >= len(m.subject) || m.subject[s] != opening {
		return -1
	}
	level := 1
	for i := s + 1; i < len(m.subject); i++ {
		m.step()
		switch m.subject[i] {
		case closing:
			if level--; level == 0 {
				return i + 1
			}
		case opening:
			level++
		}
	}
	return -1
}

// classEnd returns the end of the class that begins at p.
func (m *matcher) classEnd(p int) int {
	c := m.pattern[p]
	p++
	switch c {
	case '%':
		if p == len(m.pattern) {
			m.t.Errorf("malformed pattern (ends with '%%')")
		}
		return p + 1
	case '[':
		if p < len(m.pattern) && m.pattern[p] == '^' {
			p++
		}
		// The first byte belongs to the set even if it is a ']'.
		from := p
		for first := true; first || p >= len(m.pattern) || m.pattern[p] != ']'; first = false {
			if p >= len(m.pattern) {
				m.t.Errorf("malformed pattern (missing ']')")
			}
			if m.pattern[p] == '%' && p+1 < len(m.pattern) {
				p++
			}
			p++
		}
		m.steps += (p - from) / 8
		return p + 1
	}
	return p
}

// single reports whether there is a byte at s in the class pattern[p:next].
func (m *matcher) single(s, p, next int) bool {
	if s >= len(m.subject) {
		return false
	}
	c := m.subject[s]
	switch m.pattern[p] {
	case '.':
		return true
	case '%':
		return inClass(c, m.pattern[p+1])
	case '[':
		return m.inSet(c, p, next-1)
	}
	return m.pattern[p] == c
}

// inSet reports whether c is in the set that begins with the '[' at p and ends
// with the ']' at last.
func (m *matcher) inSet(c byte, p, last int) bool {
	m.steps += (last - p) / 4
	p++
	found := true
	if m.pattern[p] == '^' {
		found = false
		p++
	}
	for ; p < last; p++ {
		switch {
		case m.pattern[p] == '%':
			p++
			if inClass(c, m.pattern[p]) {
				return found
			}
		case p+2 < last && m.pattern[p+1] == '-':
			if m.pattern[p] <= c && c <= m.pattern[p+2] {
				return found
			}
			p += 2
		case m.pattern[p] == c:
			return found
		}
	}
	return !found
}

// inClass reports whether c is in the class that a letter names after a '%'. An upper-case
// letter names the bytes that are not in the class. A byte that is not a letter names
// itself.
func inClass(c, class byte) bool {
	var in bool
	switch class | 0x20 {
	case 'a':
		in = isLetter(c)
	case 'c':
		in = c < ' ' || c == 0x7F
	case 'd':
		in = isDecimal(c)
	case 'l':
		in = c-'a' < 26
	case 'p':
		in = c > ' ' && c < 0x7F && !isAlphanumeric(c)
	case 's':
		in = isSpace(c)
	case 'u':
		in = c-'A' < 26
	case 'w':
		in = isAlphanumeric(c)
	case 'x':
		in = isHexDigit(c)
	case 'z':
		in = c == 0
	default:
		return class == c
	}
	if !isLetter(class) {
		return class == c // such as 'A'-0x20, which is not a letter
	}
	return in != (class-'A' < 26)
}
