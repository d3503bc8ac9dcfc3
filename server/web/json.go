package web

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
	"unsafe"
)

// # Reading JSON
//
// A request is small, its shape is known, and it comes with every call: a reader
// that goes once over the bytes, and whose texts are views of them, costs a tenth
// of encoding/json. It takes what RFC 8259 allows, but for what would be
// understood differently by different readers: a field that is given twice, text
// that is no UTF-8, half of a surrogate pair. A number is a whole one of 64 bits,
// and is never a float64 in between.

// jsonReader reads one JSON text.
type jsonReader struct {
	b []byte
	i int
}

// newJSONReader returns a reader of a text, which must not change while what was
// read is in use.
func newJSONReader(b []byte) (*jsonReader, error) {
	if !utf8.Valid(b) {
		return nil, errors.New("the body is not UTF-8")
	}
	return &jsonReader{b: b}, nil
}

// wrong is an error at the place that is read.
func (r *jsonReader) wrong(format string, args ...any) error {
	return fmt.Errorf("%s, at byte %d", fmt.Sprintf(format, args...), r.i)
}

// next returns the next byte that is no space, 0 at the end, and does not take it.
func (r *jsonReader) next() byte {
	for ; r.i < len(r.b); r.i++ {
		switch c := r.b[r.i]; c {
		case ' ', '\t', '\n', '\r':
		default:
			return c
		}
	}
	return 0
}

// take takes a byte, if it is next.
func (r *jsonReader) take(c byte) bool {
	if r.next() != c {
		return false
	}
	r.i++
	return true
}

// end returns an error unless the text ends here.
func (r *jsonReader) end() error {
	if r.next(); r.i < len(r.b) {
		return r.wrong("there is something behind the JSON text")
	}
	return nil
}

// list reads what is between two brackets, by each, with commas between.
func (r *jsonReader) list(open, closing byte, each func() error) error {
	if !r.take(open) {
		return r.wrong("a %q is expected", open)
	}
	if r.take(closing) {
		return nil
	}
	for {
		if err := each(); err != nil {
			return err
		}
		if r.take(closing) {
			return nil
		}
		if !r.take(',') {
			return r.wrong("a comma or a %q is expected", closing)
		}
	}
}

// array reads an array.
func (r *jsonReader) array(each func() error) error { return r.list('[', ']', each) }

// members reads an object, whatever its members are called.
func (r *jsonReader) members(each func(name string) error) error {
	return r.list('{', '}', func() error {
		name, err := r.text()
		if err != nil {
			return err
		}
		if !r.take(':') {
			return r.wrong("a colon is expected")
		}
		return each(name)
	})
}

// object reads an object of some fields, at most 32; each is given the number of the
// field that is next. One that is null counts as absent.
func (r *jsonReader) object(fields []string, each func(field int) error) error {
	seen := uint32(0)
	return r.members(func(name string) error {
		field := slices.Index(fields, name)
		switch {
		case field < 0:
			return r.wrong("unknown field %q, there are %s", clip(name), strings.Join(fields, ", "))
		case seen&(1<<field) != 0:
			return r.wrong("field %q is given twice", name)
		}
		seen |= 1 << field
		if r.null() {
			return nil
		}
		if err := each(field); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		return nil
	})
}

// clip shortens a text for an error.
func clip(s string) string { return s[:min(len(s), 64)] }

// word takes a literal, if it is next.
func (r *jsonReader) word(s string) bool {
	r.next()
	if len(r.b)-r.i < len(s) || string(r.b[r.i:r.i+len(s)]) != s {
		return false
	}
	r.i += len(s)
	return true
}

func (r *jsonReader) null() bool { return r.word("null") }

func (r *jsonReader) boolean() (bool, error) {
	switch {
	case r.word("true"):
		return true, nil
	case r.word("false"):
		return false, nil
	}
	return false, r.wrong("true or false is expected")
}

// digits takes a whole number as it is written.
func (r *jsonReader) digits() (string, error) {
	r.next()
	begin := r.i
	if r.i < len(r.b) && r.b[r.i] == '-' {
		r.i++
	}
	first := r.i
	for r.i < len(r.b) && r.b[r.i]-'0' <= 9 {
		r.i++
	}
	if n := r.i - first; n == 0 || n > 1 && r.b[first] == '0' {
		r.i = begin
		return "", r.wrong("a whole number is expected")
	}
	if r.i < len(r.b) && (r.b[r.i] == '.' || r.b[r.i]|0x20 == 'e') {
		return "", r.wrong("a whole number is expected, without a fraction or an exponent")
	}
	return view(r.b[begin:r.i]), nil
}

func (r *jsonReader) number() (int64, error) {
	digits, err := r.digits()
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil {
		return 0, r.wrong("the number %s is out of range", clip(digits))
	}
	return n, nil
}

// text reads a string. Without an escape it is a view.
func (r *jsonReader) text() (string, error) {
	if !r.take('"') {
		return "", r.wrong("a text is expected")
	}
	rest := r.b[r.i:]
	for n, c := range rest {
		switch {
		case c == '"':
			r.i += n + 1
			return view(rest[:n]), nil
		case c == '\\':
			return r.escaped(n)
		case c < ' ':
			r.i += n
			return "", r.wrong("a control character in a text has to be escaped")
		}
	}
	r.i = len(r.b)
	return "", r.wrong("a text does not end")
}

// simple are the escapes of one character.
var simple = [256]byte{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

// escaped reads what is left of a text, of which n bytes have no escape.
func (r *jsonReader) escaped(n int) (string, error) {
	out := append([]byte(nil), r.b[r.i:r.i+n]...)
	r.i += n
	for r.i < len(r.b) {
		c := r.b[r.i]
		switch {
		case c == '"':
			r.i++
			return view(out), nil
		case c < ' ':
			return "", r.wrong("a control character in a text has to be escaped")
		case c != '\\':
			out = append(out, c)
			r.i++
			continue
		}
		if r.i++; r.i == len(r.b) {
			break
		}
		c = r.b[r.i]
		r.i++
		if simple[c] != 0 {
			out = append(out, simple[c])
			continue
		}
		if c != 'u' {
			return "", r.wrong("there is no escape \\%s", strconv.QuoteRune(rune(c)))
		}
		char, err := r.unicode()
		if err != nil {
			return "", err
		}
		out = utf8.AppendRune(out, char)
	}
	return "", r.wrong("a text does not end")
}

// unicode reads what follows \u, the second half of a surrogate pair included.
func (r *jsonReader) unicode() (rune, error) {
	char, err := r.hex()
	if err != nil || !utf16.IsSurrogate(char) {
		return char, err
	}
	if bytes.HasPrefix(r.b[r.i:], []byte(`\u`)) {
		r.i += len(`\u`)
		low, err := r.hex()
		if err != nil {
			return 0, err
		}
		if char = utf16.DecodeRune(char, low); char != utf8.RuneError {
			return char, nil
		}
	}
	return 0, r.wrong("half of a surrogate pair")
}

func (r *jsonReader) hex() (rune, error) {
	if len(r.b)-r.i >= 4 {
		if n, err := strconv.ParseUint(view(r.b[r.i:r.i+4]), 16, 16); err == nil {
			r.i += 4
			return rune(n), nil
		}
	}
	return 0, r.wrong("four hex digits are expected")
}

// view returns bytes as a text, which is good while they do not change.
func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// # Writing JSON

const hexDigits = "0123456789abcdef"

// appendText appends a string. What is no UTF-8 becomes U+FFFD.
func appendText[S ~string | ~[]byte](b []byte, s S) []byte {
	b = append(b, '"')
	from := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= ' ' && c < utf8.RuneSelf && c != '"' && c != '\\' {
			i++
			continue
		}
		size := 1
		if c >= utf8.RuneSelf {
			var char rune
			if char, size = utf8.DecodeRuneInString(string(s[i:min(len(s), i+utf8.UTFMax)])); char != utf8.RuneError || size > 1 {
				i += size
				continue
			}
		}
		b = append(b, s[from:i]...)
		switch {
		case c >= utf8.RuneSelf:
			b = append(b, "\ufffd"...)
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		default:
			b = append(b, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		}
		i += size
		from = i
	}
	return append(append(b, s[from:]...), '"')
}
