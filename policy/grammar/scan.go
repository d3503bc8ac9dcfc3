package grammar

import (
	"bytes"
	"fmt"
	"unicode/utf8"

	"github.com/headgate-io/headgate/policy"
)

// Bounds of a text.
const (
	// MaxText is the size of a policy's text, in bytes.
	MaxText = 64 << 10
	// MaxFile is the size of a file.
	MaxFile = 16 << 20
	// MaxRoutesText is the longest text of a set of routes, in bytes.
	MaxRoutesText = 256 << 10
	// maxNesting bounds the depth of brackets, and maxIndent the column at which a block
	// may begin. Both bound the depth of a tree.
	maxNesting = 12
	maxIndent  = 120
	// maxTokens bounds the memory of a tree, to about 50 MB. A list of MaxListed values
	// has four fifths of these tokens.
	maxTokens = 1 << 18
	// maxFileTokens bounds the tokens of a file, and so the memory of the file's records to
	// about 200 MB. 10,000 policies of 16 plain limits have two thirds of these tokens.
	maxFileTokens = 3 << 20
)

// scanner checks a text before the YAML parser reads it. It refuses features of YAML that
// the grammar does not use and that could cost much: anchors, aliases, merges, tags,
// directives, a second document, block texts, depth. It knows YAML's tokens only as far as
// this needs. If a text is not YAML, the parser reports that.
type scanner struct {
	text []byte
	i    int
	line int // from 0
	from int // where the line begins
	// depth is how many brackets are open.
	depth int
	// begins is set where a token may begin, and block if only blanks and block
	// indicators come before it on its line.
	begins, block bool
	seen          bool // a part of the document
	// tokens counts the tokens of the present piece, and all those of the text.
	tokens, all int
	cutter      *cutter // nil: the text is one piece
}

// scanError says what scan refuses, and where.
type scanError struct {
	line, column int // from 1
	text         string
}

// scan returns the refusal of a text, or nil. Unless c is nil, it reports to c where the
// text can be cut.
func scan(text []byte, c *cutter) *scanError {
	s := &scanner{text: text, cutter: c}
	if i := invalid(s.text); i >= 0 {
		s.i = i
		s.place()
		return s.refuse("a text is UTF-8 without control characters")
	}
	s.begins, s.block = true, true
	for s.i < len(s.text) {
		if err := s.step(); err != nil {
			return err
		}
		switch {
		case s.all > maxFileTokens:
			return s.refuse("too many values for one file: %d keys, values, colons, commas and brackets at most", maxFileTokens)
		case s.tokens > maxTokens:
			return s.refuse("too many values for one text: %d keys, values, colons, commas and brackets at most", maxTokens)
		}
	}
	return nil
}

// invalid returns the place of the first byte that is not UTF-8 or that YAML
// does not allow, or -1.
func invalid(b []byte) int {
	for i := 0; i < len(b); {
		if x := b[i]; x < utf8.RuneSelf {
			// YAML ends a line at a carriage return, users do not.
			lone := x == '\r' && (i+1 == len(b) || b[i+1] != '\n')
			if x < ' ' && x != '\n' && x != '\r' && x != '\t' || x == 0x7f || lone {
				return i
			}
			i++
			continue
		}
		r, n := utf8.DecodeRune(b[i:])
		// Line breaks of Unicode would make lines count differently for users.
		if r == utf8.RuneError && n == 1 || r == 0x85 || r == 0x2028 || r == 0x2029 || r == 0xfeff {
			return i
		}
		i += n
	}
	return -1
}

// place computes the line of s.i from the beginning.
func (s *scanner) place() {
	s.line = bytes.Count(s.text[:s.i], []byte{'\n'})
	s.from = bytes.LastIndexByte(s.text[:s.i], '\n') + 1
}

func (s *scanner) column() int { return utf8.RuneCount(s.text[s.from:s.i]) }

func (s *scanner) refuse(format string, args ...any) *scanError {
	return &scanError{line: s.line + 1, column: s.column() + 1, text: fmt.Sprintf(format, args...)}
}

// step reads one token, or a part of one.
func (s *scanner) step() *scanError {
	switch b := s.text[s.i]; {
	case b == '\n':
		s.i++
		s.line++
		s.from = s.i
		s.begins, s.block = true, s.depth == 0
		return nil
	case b == ' ', b == '\t', b == '\r':
		s.i++
		return nil
	case b == '#' && s.separated():
		s.skipLine()
		return nil
	case s.begins:
		return s.begin(b)
	case s.depth > 0 && (b == ',' || b == '[' || b == ']' || b == '{' || b == '}'):
		return s.bracket(b)
	case b == ':' && s.ends(s.i+1):
		s.count()
		s.i++
		s.begins, s.block = true, false
		return nil
	}
	s.i++ // of a plain text
	return nil
}

// count counts a token.
func (s *scanner) count() {
	s.tokens++
	s.all++
}

// begin reads the beginning of a token.
func (s *scanner) begin(b byte) *scanError {
	switch {
	case s.cutter == nil:
	case s.depth > 0:
		s.cutter.beginsInFlow(s)
	case s.block:
		s.cutter.begins(s)
	}
	s.count()
	if s.block && s.depth == 0 && s.i-s.from > maxIndent {
		return s.refuse("nested too deep")
	}
	switch b {
	case '&':
		return s.refuse("anchors are not supported: write the value again (or quote a text that begins with &)")
	case '*':
		return s.refuse("aliases are not supported: quote a pattern that begins with a star: %q", policy.Clip(string(s.word())))
	case '!':
		return s.refuse("tags are not supported (quote a text that begins with !)")
	case '|', '>':
		return s.refuse("block texts are not supported: write every value on one line")
	case '%':
		if s.i == s.from {
			return s.refuse("directives are not read")
		}
	case '"', '\'':
		return s.quoted(b)
	case '[', ']', '{', '}', ',':
		return s.bracket(b)
	case '-', '?', ':':
		if s.block && b == '-' && s.i == s.from && s.document() {
			return s.documentStart()
		}
		if s.ends(s.i + 1) {
			s.seen = true
			s.i++
			return nil // a token may follow; in a block it is deeper
		}
	case '.':
		if s.i == s.from && s.marker("...") {
			return s.refuse("a text is one document")
		}
	case '<':
		if bytes.HasPrefix(s.text[s.i:], []byte("<<")) && s.keyEnds(s.i+2) {
			return s.refuse("merges are not supported: write the keys again")
		}
	}
	s.seen, s.begins, s.block = true, false, false
	s.i++
	return nil
}

// quoted reads a quoted text, which may have several lines. Only the parser interprets
// its content.
func (s *scanner) quoted(quote byte) *scanError {
	s.seen = true
	s.i++
	for s.i < len(s.text) {
		switch b := s.text[s.i]; {
		case b == '\\' && quote == '"' && s.i+1 < len(s.text) && s.text[s.i+1] != '\n':
			s.i += 2
		case b == quote:
			s.i++
			if quote == '\'' && s.i < len(s.text) && s.text[s.i] == quote {
				s.i++
				continue
			}
			s.begins, s.block = false, false
			if s.i < len(s.text) && s.text[s.i] == ':' && s.depth > 0 {
				s.i++ // as in JSON, no blank need follow
				s.begins = true
			}
			return nil
		case b == '\n':
			s.i++
			s.line++
			s.from = s.i
		default:
			s.i++
		}
	}
	return nil
}

// bracket reads a bracket or a comma.
func (s *scanner) bracket(b byte) *scanError {
	s.count()
	switch b {
	case '[', '{':
		if s.depth++; s.depth > maxNesting {
			return s.refuse("nested too deep")
		}
	case ']', '}':
		s.depth = max(s.depth-1, 0)
	}
	s.seen, s.block = true, false
	s.begins = b != ']' && b != '}'
	s.i++
	if s.cutter != nil {
		s.cutter.bracket(s, b)
	}
	return nil
}

// documentStart reads `---`, which may come first.
func (s *scanner) documentStart() *scanError {
	if s.seen {
		return s.refuse("a text is one document")
	}
	s.seen = true
	s.i += 3
	s.block = false
	return nil
}

// document reports whether the line begins with `---`.
func (s *scanner) document() bool { return s.marker("---") }

func (s *scanner) marker(m string) bool {
	return bytes.HasPrefix(s.text[s.i:], []byte(m)) && (s.ends(s.i + len(m)))
}

// ends reports whether i is at a blank, at a line's end or, in brackets, at a bracket or
// comma. If so, a character such as - before i is an indicator and not part of a text.
func (s *scanner) ends(i int) bool {
	if i >= len(s.text) {
		return true
	}
	switch s.text[i] {
	case ' ', '\t', '\n', '\r':
		return true
	case ',', '[', ']', '{', '}':
		return s.depth > 0
	}
	return false
}

// keyEnds reports whether a colon comes next, after blanks.
func (s *scanner) keyEnds(i int) bool {
	for i < len(s.text) && s.text[i] == ' ' {
		i++
	}
	return i < len(s.text) && s.text[i] == ':'
}

// separated reports whether a blank or a line's beginning is before s.i.
func (s *scanner) separated() bool {
	return s.i == s.from || s.text[s.i-1] == ' ' || s.text[s.i-1] == '\t'
}

// word returns the rest of a text up to a blank, comma or bracket.
func (s *scanner) word() []byte {
	rest := s.text[s.i:]
	if n := bytes.IndexAny(rest, " \t\r\n,]}"); n >= 0 {
		rest = rest[:n]
	}
	return rest
}

// skipLine skips the rest of the line.
func (s *scanner) skipLine() {
	if n := bytes.IndexByte(s.text[s.i:], '\n'); n >= 0 {
		s.i += n
	} else {
		s.i = len(s.text)
	}
}
