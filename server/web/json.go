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

// jsonReader reads a JSON text of a known shape, token by token. It accepts only texts that
// all JSON readers understand alike. jsontext rejects a repeated name in an object, and
// text that is not UTF-8. Numbers must be whole; they never pass through a float64. With
// encoding/json, a second pass would have to look for repeated names, and a request would
// take 65 % longer.
type jsonReader struct {
	d    jsontext.Decoder
	body bytes.Buffer
}

// begin sets the text to read. The text must not change until the reading ends.
func (r *jsonReader) begin(text []byte) {
	r.body = *bytes.NewBuffer(text)
	r.d.Reset(&r.body)
}

// wrong returns an error with the current position.
func (r *jsonReader) wrong(format string, args ...any) error {
	return fmt.Errorf("%s, at byte %d", fmt.Sprintf(format, args...), r.d.InputOffset())
}

// token returns the next token, or an error if the token is of another kind.
func (r *jsonReader) token(kind jsontext.Kind, what string) (jsontext.Token, error) {
	if k := r.d.PeekKind(); k != kind && k != jsontext.KindInvalid {
		return jsontext.Token{}, r.wrong("%s is expected", what)
	}
	t, err := r.d.ReadToken()
	return t, syntax(err)
}

// syntax converts an error of jsontext to one for clients.
func syntax(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, io.EOF):
		return io.ErrUnexpectedEOF
	}
	return errors.New(strings.TrimPrefix(err.Error(), "jsontext: "))
}

// end returns an error if the text has more tokens.
func (r *jsonReader) end() error {
	if _, err := r.d.ReadToken(); !errors.Is(err, io.EOF) {
		return r.wrong("unexpected data after the JSON text")
	}
	return nil
}

// array reads an array, and calls each to read one value after the other.
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

// members reads an object with any names, and calls each to read each value. name is valid
// only during the call.
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

// object reads an object with the given fields. It calls each with the number of the next
// field, to read the field's value. A field whose value is null counts as absent.
func (r *jsonReader) object(fields []string, each func(field int) error) error {
	return r.members(func(name []byte) error {
		field := slices.IndexFunc(fields, func(field string) bool { return field == string(name) })
		if field < 0 {
			return r.wrong("unknown field %q; known fields: %s", clip(string(name)), strings.Join(fields, ", "))
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

// digits reads a whole number and returns it unchanged.
func (r *jsonReader) digits() (string, error) {
	t, err := r.token(jsontext.KindNumber, "a whole number")
	if err != nil {
		return "", err
	}
	digits := t.String()
	if strings.ContainsAny(digits, ".eE") {
		return "", r.wrong("expected a whole number, without a fraction or an exponent")
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

// appendText appends a string. Invalid UTF-8 becomes U+FFFD.
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
