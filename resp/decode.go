package resp

import "bufio"

// Reply is a reply of RESP2 or RESP3 as a tree. Its Type is the byte with which the reply
// begins, or '_' for every null. The elements of a map are key, value, key, value and so
// on.
type Reply struct {
	Type  byte
	Int   int64
	Str   string
	Elems []Reply
}

// maxDepth bounds how deep a Reply is.
const maxDepth = 16

// ReadReply reads one reply of up to most bytes. Attributes are left out.
func ReadReply(r *bufio.Reader, most int) (Reply, error) {
	b, err := AppendReply(nil, r, most)
	if err != nil {
		return Reply{}, err
	}
	return DecodeReply(b)
}

// DecodeReply returns the reply in b. b must be exactly one complete reply. Attributes are
// left out.
func DecodeReply(b []byte) (Reply, error) {
	d := decoder{b}
	return d.reply(0)
}

// decoder takes replies off a whole one.
type decoder struct{ b []byte }

func (d *decoder) reply(depth int) (Reply, error) {
	end := 0
	for d.b[end] != '\n' {
		end++
	}
	line := d.b[:end+1]
	d.b = d.b[end+1:]
	body, nested, err := follows(line, len(d.b))
	if err != nil || depth > maxDepth {
		return Reply{}, MalformedReply(line)
	}
	out, text := Reply{Type: line[0]}, line[1:len(line)-2]
	switch out.Type {
	case '|':
		for range nested - 1 {
			if _, err := d.reply(depth + 1); err != nil {
				return Reply{}, err
			}
		}
		return d.reply(depth)
	case ':':
		var ok bool
		if out.Int, ok = ParseInt(text); !ok {
			return Reply{}, MalformedReply(line)
		}
		return out, nil
	case '+', '-', ',', '(', '#':
		out.Str = string(text)
		return out, nil
	case '_':
		return out, nil
	}
	if text[0] == '-' {
		return Reply{Type: '_'}, nil
	}
	if body > 0 {
		out.Str = string(d.b[:body-len("\r\n")])
		d.b = d.b[body:]
		return out, nil
	}
	out.Elems = make([]Reply, nested)
	for i := range out.Elems {
		if out.Elems[i], err = d.reply(depth + 1); err != nil {
			return Reply{}, err
		}
	}
	return out, nil
}

// Error returns the text of an error reply, or "".
func (r *Reply) Error() string {
	if r.Type == '-' || r.Type == '!' {
		return r.Str
	}
	return ""
}

// Field returns the value of a name in a RESP3 map, or nil.
func (r *Reply) Field(name string) *Reply {
	if r.Type != '%' {
		return nil
	}
	for i := 0; i+1 < len(r.Elems); i += 2 {
		if r.Elems[i].Str == name {
			return &r.Elems[i+1]
		}
	}
	return nil
}
