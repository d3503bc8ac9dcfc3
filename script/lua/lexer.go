package lua

import (
	"fmt"
	"strings"
)

// pauseEvery is the number of tokens between two calls of pause: some 100 µs.
const pauseEvery = 512

// lexer splits the text of a script into tokens, as Lua 5.1 does: its words,
// its errors, its line numbers.
type lexer struct {
	t        *Thread // that is charged, or nil
	chunk    string  // the name in error messages
	text     string
	at       int
	line     int // of the current character
	lastLine int // of the last token that the parser took
	kind     token
	value    string  // of a name or string
	number   float64 // of a number
	start    int     // where the token begins in text
	tokens   int     // how many the parser has taken
	pause    func()  // called now and then, if not nil

	ahead struct {
		ok     bool
		kind   token
		value  string
		number float64
		start  int
	}
}

// SyntaxError says why a text is not a script; its message begins with the
// chunk's name and the line.
type SyntaxError struct{ Message string }

func (e *SyntaxError) Error() string { return e.Message }

// endOfText is what current returns after the text.
const endOfText = -1

func (lx *lexer) current() int {
	if lx.at < len(lx.text) {
		return int(lx.text[lx.at])
	}
	return endOfText
}

func (lx *lexer) fail(message, near string) {
	message = fmt.Sprintf("%s:%d: %s", lx.chunk, shownLine(lx.line), message)
	if near != "" {
		message += " near '" + near + "'"
	}
	panic(&SyntaxError{message})
}

// failHere is an error at the current token.
func (lx *lexer) failHere(message string) { lx.fail(message, lx.shown(lx.kind)) }

// shown returns a token in an error message: names and numbers as written, strings
// as their value between their delimiters.
func (lx *lexer) shown(k token) string {
	switch k {
	case tokName, tokNumber:
		return lx.raw()
	case tokString:
		if lx.text[lx.start] != '[' {
			quote := lx.text[lx.start : lx.start+1]
			return cString(quote + lx.value + quote)
		}
		n := 1
		for lx.text[lx.start+n] == '=' {
			n++
		}
		open := lx.text[lx.start : lx.start+n+1]
		return cString(open + lx.value + strings.ReplaceAll(open, "[", "]"))
	}
	return k.String()
}

// raw returns the text of the current token as far as it has been read.
func (lx *lexer) raw() string { return cString(lx.text[lx.start:lx.at]) }

// cString ends s at its first NUL, as C's formatting does.
func cString(s string) string {
	for i := 0; i < len(s); i++ {
		if s[i] == 0 {
			return s[:i]
		}
	}
	return s
}

// next takes the next token.
func (lx *lexer) next() {
	lx.lastLine = lx.line
	lx.tokens++
	if lx.pause != nil && lx.tokens%pauseEvery == 0 {
		lx.pause()
	}
	if lx.ahead.ok {
		lx.kind, lx.value, lx.number, lx.start = lx.ahead.kind, lx.ahead.value, lx.ahead.number, lx.ahead.start
		lx.ahead.ok = false
		return
	}
	from := lx.at
	lx.kind = lx.scan()
	lx.t.charge(readSteps * (lx.at - from))
}

// peek returns the token after the current one.
func (lx *lexer) peek() token {
	kind, value, number, start := lx.kind, lx.value, lx.number, lx.start
	k := lx.scan()
	lx.ahead.ok, lx.ahead.kind, lx.ahead.value, lx.ahead.number, lx.ahead.start = true, k, lx.value, lx.number, lx.start
	lx.kind, lx.value, lx.number, lx.start = kind, value, number, start
	return k
}

// newline skips \n, \r, \n\r or \r\n.
func (lx *lexer) newline() {
	old := lx.text[lx.at]
	lx.at++
	if c := lx.current(); (c == '\n' || c == '\r') && byte(c) != old {
		lx.at++
	}
	lx.line++
}

func (lx *lexer) scan() token {
	for {
		lx.start = lx.at
		c := lx.current()
		switch c {
		case endOfText:
			return tokEOF
		case '\n', '\r':
			lx.newline()
		case ' ', '\t', '\v', '\f':
			lx.at++
		case '-':
			lx.at++
			if lx.current() != '-' {
				return '-'
			}
			lx.at++
			lx.comment()
		case '[':
			level, ok := lx.separator()
			if ok {
				lx.value = lx.long(level, false)
				return tokString
			}
			if level > 0 {
				lx.fail("invalid long string delimiter", lx.raw())
			}
			return '['
		case '=':
			return lx.either('=', '=', tokEqual)
		case '<':
			return lx.either('<', '=', tokLessEqual)
		case '>':
			return lx.either('>', '=', tokGreaterEqual)
		case '~':
			return lx.either('~', '=', tokNotEqual)
		case '"', '\'':
			lx.quoted(byte(c))
			return tokString
		case '.':
			return lx.dots()
		default:
			if isDigit(c) {
				lx.numeral()
				return tokNumber
			}
			if isAlpha(c) {
				return lx.name()
			}
			lx.at++
			return token(c)
		}
	}
}

func isDigit(c int) bool { return c >= '0' && c <= '9' }
func isAlpha(c int) bool { return c == '_' || c|0x20 >= 'a' && c|0x20 <= 'z' }

func (lx *lexer) either(one token, second int, two token) token {
	lx.at++
	if lx.current() == second {
		lx.at++
		return two
	}
	return one
}

func (lx *lexer) dots() token {
	lx.at++
	if lx.current() == '.' {
		lx.at++
		if lx.current() == '.' {
			lx.at++
			return tokDots
		}
		return tokConcat
	}
	if isDigit(lx.current()) {
		lx.at--
		lx.numeral()
		return tokNumber
	}
	return '.'
}

func (lx *lexer) name() token {
	for c := lx.current(); isAlpha(c) || isDigit(c); c = lx.current() {
		lx.at++
	}
	lx.value = lx.text[lx.start:lx.at]
	if k, ok := reserved[lx.value]; ok {
		return k
	}
	return tokName
}

func (lx *lexer) numeral() {
	for c := lx.current(); isDigit(c) || c == '.'; c = lx.current() {
		lx.at++
	}
	if lx.current()|0x20 == 'e' {
		lx.at++
		if c := lx.current(); c == '+' || c == '-' {
			lx.at++
		}
	}
	for c := lx.current(); isAlpha(c) || isDigit(c); c = lx.current() {
		lx.at++
	}
	f, ok := ParseNumber(lx.text[lx.start:lx.at])
	if !ok {
		lx.fail("malformed number", lx.raw())
	}
	lx.number = f
}

func (lx *lexer) comment() {
	if lx.current() == '[' {
		if level, ok := lx.separator(); ok {
			lx.long(level, true)
			return
		}
	}
	for c := lx.current(); c != '\n' && c != '\r' && c != endOfText; c = lx.current() {
		lx.at++
	}
}

// separator skips [=*[ or ]=*] up to its second bracket and returns the number
// of equals signs; ok reports whether that bracket is there.
func (lx *lexer) separator() (level int, ok bool) {
	bracket := lx.current()
	lx.at++
	for lx.current() == '=' {
		level++
		lx.at++
	}
	return level, lx.current() == bracket
}

// long returns a long string or comment, from its second bracket on.
func (lx *lexer) long(level int, comment bool) string {
	lx.at++
	if c := lx.current(); c == '\n' || c == '\r' {
		lx.newline()
	}
	var b []byte
	for {
		switch c := lx.current(); c {
		case endOfText:
			what := "unfinished long string"
			if comment {
				what = "unfinished long comment"
			}
			lx.fail(what, tokEOF.String())
		case '[':
			from := lx.at
			if n, ok := lx.separator(); ok && n == level {
				if level == 0 {
					lx.fail("nesting of [[...]] is deprecated", "[")
				}
				lx.at++
			}
			b = append(b, lx.text[from:lx.at]...)
		case ']':
			from := lx.at
			if n, ok := lx.separator(); ok && n == level {
				lx.at++
				return string(b)
			}
			b = append(b, lx.text[from:lx.at]...)
		case '\n', '\r':
			lx.newline()
			b = append(b, '\n')
		default:
			lx.at++
			if !comment {
				b = append(b, byte(c))
			}
		}
	}
}

func (lx *lexer) quoted(quote byte) {
	lx.at++
	from, plain := lx.at, true
	var b []byte
	for {
		c := lx.current()
		switch {
		case c == endOfText:
			lx.fail("unfinished string", tokEOF.String())
		case c == '\n' || c == '\r':
			if plain {
				b = []byte(lx.text[from:lx.at])
			}
			lx.fail("unfinished string", cString(string(quote)+string(b)))
		case c == int(quote):
			if plain {
				lx.value = lx.text[from:lx.at]
			} else {
				lx.value = string(b)
			}
			lx.at++
			return
		case c == '\\':
			if plain {
				plain, b = false, append(b, lx.text[from:lx.at]...)
			}
			b = lx.escape(b)
		default:
			if !plain {
				b = append(b, byte(c))
			}
			lx.at++
		}
	}
}

func (lx *lexer) escape(b []byte) []byte {
	lx.at++
	c := lx.current()
	switch c {
	case endOfText:
		return b
	case '\n', '\r':
		lx.newline()
		return append(b, '\n')
	case 'a':
		c = '\a'
	case 'b':
		c = '\b'
	case 'f':
		c = '\f'
	case 'n':
		c = '\n'
	case 'r':
		c = '\r'
	case 't':
		c = '\t'
	case 'v':
		c = '\v'
	default:
		if isDigit(c) {
			n := 0
			for i := 0; i < 3 && isDigit(lx.current()); i++ {
				n = 10*n + lx.current() - '0'
				lx.at++
			}
			if n > 255 {
				lx.fail("escape sequence too large", cString(lx.text[lx.start:lx.start+1]+string(b)))
			}
			return append(b, byte(n))
		}
	}
	lx.at++
	return append(b, byte(c))
}
