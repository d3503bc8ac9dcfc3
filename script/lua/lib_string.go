package lua

import (
	"math"
	"strings"
)

// maxResults is how many values Lua's own functions push at most, together
// with their arguments.
const maxResults = 8000

// stringLibrary returns the table string. It has no dump: the evaluator has no
// bytecode.
func stringLibrary() *Table {
	return NewLibrary(
		Func("byte", stringByte),
		Func("char", stringChar),
		Func("dump", stringDump),
		Func("find", stringFind),
		Func("format", stringFormat),
		Func("gfind", stringGmatch), // its older name
		Func("gmatch", stringGmatch),
		Func("gsub", stringGsub),
		Func("len", stringLen),
		Func("lower", stringLower),
		Func("match", stringMatch),
		Func("rep", stringRep),
		Func("reverse", stringReverse),
		Func("sub", stringSub),
		Func("upper", stringUpper),
	)
}

// checkInt32 is CheckInt cut to C's int.
func (t *Thread) checkInt32(args []Value, i int) int { return int(int32(t.CheckInt(args, i))) }

// optInt32 is OptInt cut to C's int.
func (t *Thread) optInt32(args []Value, i, d int) int {
	if Arg(args, i).IsNil() {
		return d
	}
	return t.checkInt32(args, i)
}

// fromEnd makes a position that counts from the end of n bytes one from the
// start; 0 is in front of the string.
func fromEnd(position int64, n int) int64 {
	if position < 0 {
		return max(0, position+int64(n)+1)
	}
	return position
}

// checkResults raises an error if a function of so many arguments has more
// results than Lua's stack takes.
func (t *Thread) checkResults(args []Value, results int, message string) {
	if results+len(args) > maxResults {
		t.Errorf("stack overflow (%s)", message)
	}
}

func stringLen(t *Thread, args []Value) Value {
	return Int(len(t.CheckString(args, 0)))
}

func stringSub(t *Thread, args []Value) Value {
	s := t.CheckString(args, 0)
	from := max(1, fromEnd(t.CheckInt(args, 1), len(s)))
	to := min(int64(len(s)), fromEnd(t.OptInt(args, 2, -1), len(s)))
	if from > to {
		return String("")
	}
	return t.Substring(s, int(from-1), int(to))
}

func stringByte(t *Thread, args []Value) Value {
	s := t.CheckString(args, 0)
	from := fromEnd(t.OptInt(args, 1, 1), len(s))
	to := min(int64(len(s)), fromEnd(t.OptInt(args, 2, from), len(s)))
	from = max(1, from)
	if from > to {
		return t.Return()
	}
	if from == to {
		return Int(int(s[from-1]))
	}
	n := int(to - from + 1)
	t.checkResults(args, n, "string slice too long")
	t.Alloc(n * valueBytes)
	t.Step(n / 4)
	codes := make([]Value, n)
	for i := range codes {
		codes[i] = Int(int(s[int(from)-1+i]))
	}
	return t.Return(codes...)
}

func stringChar(t *Thread, args []Value) Value {
	b := buffer{t: t}
	b.room(len(args))
	for i := range args {
		c := t.checkInt32(args, i)
		if c != int(byte(c)) {
			t.ArgError(i, "invalid value")
		}
		b.b = append(b.b, byte(c))
	}
	return b.value()
}

func stringRep(t *Thread, args []Value) Value {
	s := t.CheckString(args, 0)
	n := t.checkInt32(args, 1)
	if n <= 0 || len(s) == 0 {
		return String("")
	}
	if n > math.MaxInt/len(s) {
		n = math.MaxInt / len(s) // more than any bound
	}
	size := n * len(s)
	t.Alloc(size)
	t.Step(size / 16)
	b := buffer{t: t, b: make([]byte, 0, size)}
	b.b = append(b.b, s...)
	for len(b.b) < size {
		b.b = append(b.b, b.b[:min(len(b.b), size-len(b.b))]...)
	}
	return b.value()
}

// mapped is s with f applied to each byte.
func (t *Thread) mapped(s string, f func(c byte) byte) Value {
	b := buffer{t: t}
	b.room(len(s))
	for i := 0; i < len(s); i++ {
		t.ahead(i, len(s))
		b.b = append(b.b, f(s[i]))
	}
	return b.value()
}

func stringLower(t *Thread, args []Value) Value {
	return t.mapped(t.CheckString(args, 0), func(c byte) byte {
		if c-'A' < 26 {
			c |= 0x20
		}
		return c
	})
}

func stringUpper(t *Thread, args []Value) Value {
	return t.mapped(t.CheckString(args, 0), func(c byte) byte {
		if c-'a' < 26 {
			c &^= 0x20
		}
		return c
	})
}

func stringReverse(t *Thread, args []Value) Value {
	s := t.CheckString(args, 0)
	i := len(s)
	return t.mapped(s, func(byte) byte {
		i--
		return s[i]
	})
}

func stringDump(t *Thread, args []Value) Value {
	t.CheckFunction(args, 0)
	t.Errorf("unable to dump given function")
	return Nil
}

// hasSpecials reports whether a pattern has more than plain text; C looks for it
// up to the first zero byte.
func hasSpecials(pattern string) bool {
	if i := strings.IndexByte(pattern, 0); i >= 0 {
		pattern = pattern[:i]
	}
	return strings.ContainsAny(pattern, "^$*+?.([%-")
}

func stringFind(t *Thread, args []Value) Value {
	s, pattern := t.CheckString(args, 0), t.CheckString(args, 1)
	from := t.searchFrom(args, s)
	t.Step(len(pattern) / 16)
	if !Arg(args, 3).Truth() && hasSpecials(pattern) {
		return t.search(s, pattern, from, true)
	}
	i := t.indexText(s[from:], pattern)
	if i < 0 {
		return Nil
	}
	return t.Return(Int(from+i+1), Int(from+i+len(pattern)))
}

// shortText is the longest text for which the time of strings.Index grows only
// with the length of the searched text.
const shortText = 63

// indexText is strings.Index that charges. For a long text, it searches for the beginning
// and compares the rest at each hit.
func (t *Thread) indexText(s, text string) int {
	beginning := text[:min(len(text), shortText)]
	for at := 0; ; {
		end := min(len(s), at+16*piece+len(beginning))
		i := strings.Index(s[at:end], beginning)
		if i >= 0 {
			t.Step(1 + i/16)
		} else {
			t.Step((end - at) / 16)
		}
		switch {
		case i < 0 && end == len(s):
			return -1
		case i < 0:
			at = end - len(beginning) + 1
			continue
		}
		if at += i; len(s)-at < len(text) {
			return -1
		}
		t.Step((len(text) - len(beginning)) / 64)
		if s[at:at+len(text)] == text {
			return at
		}
		at++
	}
}

func stringMatch(t *Thread, args []Value) Value {
	s, pattern := t.CheckString(args, 0), t.CheckString(args, 1)
	return t.search(s, pattern, t.searchFrom(args, s), false)
}

// searchFrom returns the index of the subject that the third argument means.
func (t *Thread) searchFrom(args []Value, s string) int {
	from := fromEnd(t.OptInt(args, 2, 1), len(s)) - 1
	return int(min(max(0, from), int64(len(s))))
}

// search returns the captures of the first match at or after the index from. If where is
// set, it also returns the position of the match.
func (t *Thread) search(s, pattern string, from int, where bool) Value {
	m := newMatcher(t, s, pattern)
	first, last := 0, len(s)
	if strings.HasPrefix(m.pattern, "^") {
		first, last = 1, from
	}
	for ; from <= last; from++ {
		m.step()
		end := m.matchAt(from, first)
		if end < 0 {
			continue
		}
		m.settle()
		var buf [maxCaptures + 2]Value
		results := buf[:0]
		if where {
			results = append(results, Int(from+1), Int(end))
			if m.level == 0 {
				return t.Return(results...)
			}
		}
		results = m.appendCaptures(results, from, end)
		if len(results) == 1 {
			return results[0]
		}
		return t.Return(results...)
	}
	m.settle()
	return Nil
}

// capture returns the value of capture i of a match from s to end. If the pattern
// has no captures, the first is the whole match.
func (m *matcher) capture(i, s, end int) Value {
	if i >= m.level {
		if i > 0 {
			m.t.Errorf("invalid capture index")
		}
		return m.t.Substring(m.subject, s, end)
	}
	switch c := m.captures[i]; c.size {
	case captureOpen:
		m.t.Errorf("unfinished capture")
		return Nil
	case capturePosition:
		return Int(c.at + 1)
	default:
		return m.t.Substring(m.subject, c.at, c.at+c.size)
	}
}

// appendCaptures appends all captures of a match, or the whole match.
func (m *matcher) appendCaptures(dst []Value, s, end int) []Value {
	for i := range max(m.level, 1) {
		dst = append(dst, m.capture(i, s, end))
	}
	return dst
}

func stringGmatch(t *Thread, args []Value) Value {
	s, pattern := t.CheckString(args, 0), t.CheckString(args, 1)
	t.Alloc(256)
	at := 0
	// The cells let the count of the script's memory find the strings.
	f := &Function{cells: []*cell{{v: String(s)}, {v: String(pattern)}}}
	f.native = func(t *Thread, _ []Value) Value {
		m := newMatcher(t, s, pattern)
		for ; at <= len(s); at++ {
			m.step()
			end := m.matchAt(at, 0)
			if end < 0 {
				continue
			}
			m.settle()
			from := at
			at = end
			if end == from {
				at++ // go on behind an empty match
			}
			var buf [maxCaptures]Value
			results := m.appendCaptures(buf[:0], from, end)
			if len(results) == 1 {
				return results[0]
			}
			return t.Return(results...)
		}
		m.settle()
		return Nil
	}
	return f.Value()
}
