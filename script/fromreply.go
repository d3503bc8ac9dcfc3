package script

import (
	"bytes"
	"errors"
	"strconv"

	"github.com/headgate-io/headgate/resp"
	"github.com/headgate-io/headgate/script/lua"
)

// errReply is the error for a reply that no command of ours writes.
var errReply = errors.New("malformed reply")

// replyReader makes Lua values from a command's reply, as Redis does:
//
//	integer            number
//	bulk string        string
//	status, error      a table with one field, ok or err
//	array              table
//	null               false in RESP2, nil in RESP3
//	boolean            boolean
//	double, big number tables with the field double, big_number
//	map, set           tables with the field map, set; the members of a set are
//	                   keys, with the value true
//	verbatim string    a table with the field verbatim_string, which has the
//	                   fields format and string
type replyReader struct {
	t *lua.Thread
	b []byte
}

// maxReplyDepth bounds the depth of a command's reply.
const maxReplyDepth = 16

// line removes a line and returns it without its end.
func (r *replyReader) line() ([]byte, error) {
	end := bytes.IndexByte(r.b, '\n')
	if end < 2 {
		return nil, errReply
	}
	line := r.b[:end-1]
	r.b = r.b[end+1:]
	return line, nil
}

// text removes n bytes and their line end.
func (r *replyReader) text(n int) ([]byte, error) {
	if n < 0 || len(r.b) < n+2 {
		return nil, errReply
	}
	text := r.b[:n]
	r.b = r.b[n+2:]
	return text, nil
}

// value removes a whole reply.
func (r *replyReader) value(depth int) (lua.Value, error) {
	line, err := r.line()
	if err != nil || depth > maxReplyDepth {
		return lua.Nil, errReply
	}
	kind, body := line[0], line[1:]
	switch kind {
	case '+':
		return r.single("ok", r.t.String(body)), nil
	case '-':
		return replied(r.t, string(line)).Value(), nil
	case '#':
		return lua.Boolean(len(body) == 1 && body[0] == 't'), nil
	case '_':
		return lua.Nil, nil
	case '(':
		return r.single("big_number", r.t.String(body)), nil
	case ',':
		f, err := strconv.ParseFloat(string(body), 64)
		if err != nil && !errors.Is(err, strconv.ErrRange) {
			return lua.Nil, errReply
		}
		return r.single("double", lua.Number(lua.Canonical(f))), nil
	}
	n, ok := resp.ParseInt(body)
	if !ok {
		return lua.Nil, errReply
	}
	switch kind {
	case ':':
		return lua.Number(float64(n)), nil
	case '$':
		if n < 0 {
			return lua.False, nil
		}
		text, err := r.text(int(n))
		if err != nil {
			return lua.Nil, err
		}
		return r.t.String(text), nil
	case '=':
		return r.verbatim(int(n))
	case '*', '>':
		if n < 0 {
			return lua.False, nil
		}
		return r.array(int(n), depth)
	case '%', '~':
		return r.keyed(kind, int(n), depth)
	}
	return lua.Nil, errReply
}

func (r *replyReader) array(n, depth int) (lua.Value, error) {
	list := r.t.NewTable(lua.ListSize(n), 0)
	r.t.Step(n)
	for i := range n {
		v, err := r.value(depth + 1)
		if err != nil {
			return lua.Nil, err
		}
		list.SetInt(r.t, i+1, v)
	}
	return list.Value(), nil
}

// keyed returns a map, or a set: a map of members to true.
func (r *replyReader) keyed(kind byte, n, depth int) (lua.Value, error) {
	name := "set"
	if kind == '%' {
		name = "map"
	}
	members := r.t.NewTable(0, n)
	r.t.Step(n)
	for range n {
		k, err := r.value(depth + 1)
		if err != nil {
			return lua.Nil, err
		}
		v := lua.True
		if kind == '%' {
			if v, err = r.value(depth + 1); err != nil {
				return lua.Nil, err
			}
		}
		if !k.IsNil() {
			members.Set(r.t, k, v)
		}
	}
	return r.single(name, members.Value()), nil
}

func (r *replyReader) verbatim(n int) (lua.Value, error) {
	text, err := r.text(n)
	if err != nil || n < len("txt:") {
		return lua.Nil, errReply
	}
	v := r.t.NewTable(0, 2)
	v.SetText(r.t, "format", r.t.String(text[:3]))
	v.SetText(r.t, "string", r.t.String(text[4:]))
	return r.single("verbatim_string", v.Value()), nil
}

// single returns a table with one field.
func (r *replyReader) single(name string, v lua.Value) lua.Value {
	t := r.t.NewTable(0, 1)
	t.SetText(r.t, name, v)
	return t.Value()
}
