package admin

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/headgate-io/headgate/policy"
	"github.com/headgate-io/headgate/resp"
)

// decode reads a JSON body strictly: anything ambiguous or unknown is an error.
func decode(body []byte, into any) error {
	if !utf8.Valid(body) {
		return wrong("the body is not UTF-8")
	}
	if err := checkNames(body); err != nil {
		return wrong("%v", err)
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	d.UseNumber()
	if err := d.Decode(into); err != nil {
		return wrong("%s", strings.TrimPrefix(err.Error(), "json: "))
	}
	return nil
}

// maxNesting is how deep JSON may be nested.
const maxNesting = 32

// checkNames returns an error unless a text is one JSON value in which no object has a name
// twice.
func checkNames(text []byte) error {
	type level struct {
		names map[string]bool // of the object that is open
		key   bool            // a name is next
	}
	var levels []level
	d := json.NewDecoder(bytes.NewReader(text))
	for first := true; first || len(levels) > 0; first = false {
		token, err := d.Token()
		if err != nil {
			if errors.Is(err, io.EOF) {
				return errors.New("the body ends within a JSON value")
			}
			return err
		}
		var top *level
		if n := len(levels); n > 0 {
			top = &levels[n-1]
		}
		switch t := token.(type) {
		case json.Delim:
			switch t {
			case '{', '[':
				if top != nil {
					top.key = true
				}
				if len(levels) == maxNesting {
					return errors.New("the body is nested too deep")
				}
				next := level{}
				if t == '{' {
					next = level{names: map[string]bool{}, key: true}
				}
				levels = append(levels, next)
			default:
				levels = levels[:len(levels)-1]
			}
			continue
		case string:
			if top != nil && top.names != nil && top.key {
				if top.names[t] {
					return errors.New("field " + strconv.Quote(t[:min(len(t), 64)]) + " is given twice")
				}
				top.names[t] = true
				top.key = false
				continue
			}
		}
		if top != nil {
			top.key = true
		}
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("unexpected data after the JSON value")
	}
	return nil
}

// attributes are the attributes of a caller: strings, whole numbers, true and false.
type attributes map[string]any

// pairs returns the names and values, sorted by name. It leaves out attributes whose value
// is null or "".
func (a attributes) pairs() ([]string, error) {
	var names, list []string
	for name := range a {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		switch v := a[name].(type) {
		case nil:
		case string:
			list = append(list, name, v)
		case bool:
			list = append(list, name, strconv.FormatBool(v))
		case json.Number:
			if strings.ContainsAny(v.String(), ".eE") {
				return nil, wrong("attribute %.64q: a whole number is expected", name)
			}
			list = append(list, name, v.String())
		default:
			return nil, wrong("attribute %.64q: the value must be a string, a whole number, true or false", name)
		}
	}
	return list, nil
}

// checkNamesOf returns an error if pairs has a name that no attribute may have. A command
// could read such a name as an option.
func checkNamesOf(pairs []string) error {
	for i := 0; i < len(pairs); i += 2 {
		if err := policy.CheckAttributeName(pairs[i]); err != nil {
			return wrong("%v", err)
		}
	}
	return nil
}

// text returns the JSON of v, for values that json.Marshal cannot refuse.
func text(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic("admin: " + err.Error())
	}
	return b
}

// answer returns an Answer with the JSON of v.
func answer(v any) (Answer, error) { return Answer{Body: text(v)}, nil }

// appendReply appends a reply as JSON. Maps become objects.
func appendReply(b []byte, r *resp.Reply) []byte {
	switch r.Type {
	case '%':
		b = append(b, '{')
		for i := 0; i+1 < len(r.Elems); i += 2 {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(append(b, text(r.Elems[i].Str)...), ':')
			b = appendReply(b, &r.Elems[i+1])
		}
		return append(b, '}')
	case '*', '~', '>':
		b = append(b, '[')
		for i := range r.Elems {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendReply(b, &r.Elems[i])
		}
		return append(b, ']')
	case ':':
		return strconv.AppendInt(b, r.Int, 10)
	case '#':
		return strconv.AppendBool(b, r.Str == "t")
	case '_':
		return append(b, "null"...)
	}
	return append(b, text(r.Str)...)
}

// value returns a field of a map, the zero value if it is missing.
func value(r *resp.Reply, name string) resp.Reply {
	if f := r.Field(name); f != nil {
		return *f
	}
	return resp.Reply{}
}
