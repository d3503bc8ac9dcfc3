// Package resp is a client's half of the Redis protocol, RESP2 and RESP3: it encodes commands and reads replies.
//
// It knows no retries, pools or timeouts, so that every call of a fault run is sent once and what became of it is plain.
package resp

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

// Reply is one reply. Its Type is the byte that begins it on the wire; maps and sets are arrays here.
type Reply struct {
	Type  byte
	Int   int64
	Str   string
	Elems []Reply
}

// Bounds of a reply: more comes from no Headgate.
const (
	maxBulk  = 1 << 20
	maxElems = 1 << 16
	maxDepth = 8
)

var errProtocol = errors.New("not a RESP reply")

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

// Read reads one reply.
func Read(r *bufio.Reader) (Reply, error) { return read(r, 0) }

func read(r *bufio.Reader, depth int) (Reply, error) {
	line, err := r.ReadSlice('\n')
	if err != nil {
		return Reply{}, err
	}
	if len(line) < 3 || line[len(line)-2] != '\r' || depth > maxDepth {
		return Reply{}, errProtocol
	}
	out, text := Reply{Type: line[0]}, line[1:len(line)-2]
	switch out.Type {
	case '+', '-', ',', '(', '#':
		out.Str = string(text)
		return out, nil
	case '_':
		return out, nil
	}
	n, err := strconv.ParseInt(string(text), 10, 64)
	if err != nil {
		return Reply{}, errProtocol
	}
	out.Int = n
	switch out.Type {
	case ':':
		return out, nil
	case '$', '!', '=':
		if n > maxBulk {
			return Reply{}, errProtocol
		}
		if n < 0 {
			return Reply{Type: '_'}, nil
		}
		b := make([]byte, n+2)
		if _, err := io.ReadFull(r, b); err != nil {
			return Reply{}, err
		}
		out.Str = string(b[:n])
		return out, nil
	case '*', '%', '~', '>':
		if n < 0 {
			return Reply{Type: '_'}, nil
		}
		if out.Type == '%' {
			n *= 2
		}
		if n > maxElems {
			return Reply{}, errProtocol
		}
		out.Elems = make([]Reply, n)
		for i := range out.Elems {
			if out.Elems[i], err = read(r, depth+1); err != nil {
				return Reply{}, err
			}
		}
		return out, nil
	}
	return Reply{}, errProtocol
}

// Append appends a command to b.
func Append(b []byte, args ...string) []byte {
	b = append(b, '*')
	b = strconv.AppendInt(b, int64(len(args)), 10)
	b = append(b, "\r\n"...)
	for _, a := range args {
		b = append(b, '$')
		b = strconv.AppendInt(b, int64(len(a)), 10)
		b = append(b, "\r\n"...)
		b = append(b, a...)
		b = append(b, "\r\n"...)
	}
	return b
}

// Do connects to addr, executes one command within the timeout, and returns its reply. Error replies are errors.
func Do(addr string, timeout time.Duration, args ...string) (Reply, error) {
	c, err := net.DialTimeout("tcp", addr, timeout)
	if err != nil {
		return Reply{}, err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(timeout)); err != nil {
		return Reply{}, err
	}
	if _, err := c.Write(Append(nil, args...)); err != nil {
		return Reply{}, err
	}
	r, err := Read(bufio.NewReader(c))
	if err != nil {
		return Reply{}, fmt.Errorf("%s: %w", strings.Join(args, " "), err)
	}
	if text := r.Error(); text != "" {
		return r, errors.New(text)
	}
	return r, nil
}
