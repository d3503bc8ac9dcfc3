package web

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// # Reading JSON

// jsonReader reads a JSON text whose shape is known, token by token, and takes only
// what all readers understand alike: by jsontext no name is given twice in an object
// and text is UTF-8; here a number is a whole one, and is never a float64 in between.
type jsonReader struct {
	d    jsontext.Decoder
	body bytes.Buffer
}

// begin begins with a text, which must not change while it is read.
func (r *jsonReader) begin(text []byte) {
	r.body = *bytes.NewBuffer(text)
	r.d.Reset(&r.body)
}

// wrong is an error at the place that is read.
func (r *jsonReader) wrong(format string, args ...any) error {
	return fmt.Errorf("%s, at byte %d", fmt.Sprintf(format, args...), r.d.InputOffset())
}

// token takes the next token, if it is of a kind.
func (r *jsonReader) token(kind jsontext.Kind, what string) (jsontext.Token, error) {
	if k := r.d.PeekKind(); k != kind && k != jsontext.KindInvalid {
		return jsontext.Token{}, r.wrong("%s is expected", what)
	}
	t, err := r.d.ReadToken()
	return t, syntax(err)
}

// syntax is an error of jsontext, as it is told to clients.
func syntax(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, io.EOF):
		return io.ErrUnexpectedEOF
	}
	return errors.New(strings.TrimPrefix(err.Error(), "jsontext: "))
}

// end returns an error unless the text ends here.
func (r *jsonReader) end() error {
	if _, err := r.d.ReadToken(); !errors.Is(err, io.EOF) {
		return r.wrong("there is something behind the JSON text")
	}
	return nil
}

// array reads an array, each of whose values each takes.
func (r *jsonReader) array(each func() error) error {
	if _, err := r.token(jsontext.KindBeginArray, "an array"); err != nil {
		return err
	}
	for {
		switch r.d.PeekKind() {
		case jsontext.KindEndArray, jsontext.KindInvalid:
			_, err := r.d.ReadToken()
			return syntax(err)
		}
		if err := each(); err != nil {
			return err
		}
	}
}

// members reads an object, whatever its members are called; each takes a value. The
// name is there until then.
func (r *jsonReader) members(each func(name []byte) error) error {
	if _, err := r.token(jsontext.KindBeginObject, "an object"); err != nil {
		return err
	}
	for {
		switch r.d.PeekKind() {
		case jsontext.KindEndObject, jsontext.KindInvalid:
			_, err := r.d.ReadToken()
			return syntax(err)
		}
		quoted, err := r.d.ReadValue()
		if err != nil {
			return syntax(err)
		}
		name := quoted[1 : len(quoted)-1]
		if bytes.IndexByte(name, '\\') >= 0 {
			if name, err = jsontext.AppendUnquote(nil, quoted); err != nil {
				return syntax(err)
			}
		}
		if err := each(name); err != nil {
			return err
		}
	}
}

// object reads an object of some fields; each is given the number of the field that
// is next. One that is null counts as absent.
func (r *jsonReader) object(fields []string, each func(field int) error) error {
	return r.members(func(name []byte) error {
		field := slices.IndexFunc(fields, func(field string) bool { return field == string(name) })
		if field < 0 {
			return r.wrong("unknown field %q, there are %s", clip(string(name)), strings.Join(fields, ", "))
		}
		if r.d.PeekKind() == jsontext.KindNull {
			_, err := r.d.ReadToken()
			return syntax(err)
		}
		if err := each(field); err != nil {
			return fmt.Errorf("%s: %w", fields[field], err)
		}
		return nil
	})
}

// clip shortens a text for an error.
func clip(s string) string { return s[:min(len(s), 64)] }

func (r *jsonReader) boolean() (bool, error) {
	if r.d.PeekKind() == jsontext.KindTrue {
		_, err := r.d.ReadToken()
		return true, syntax(err)
	}
	_, err := r.token(jsontext.KindFalse, "true or false")
	return false, err
}

// digits takes a whole number as it is written.
func (r *jsonReader) digits() (string, error) {
	t, err := r.token(jsontext.KindNumber, "a whole number")
	if err != nil {
		return "", err
	}
	digits := t.String()
	if strings.ContainsAny(digits, ".eE") {
		return "", r.wrong("a whole number is expected, without a fraction or an exponent")
	}
	return digits, nil
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

func (r *jsonReader) text() (string, error) {
	t, err := r.token(jsontext.KindString, "a text")
	if err != nil {
		return "", err
	}
	return t.String(), nil
}

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
