package resp

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
)

// ErrReplyTooLong is returned for a reply above its bound.
var ErrReplyTooLong = errors.New("reply is too long")

// MalformedReply is the error for bytes that are not a reply of RESP2 or RESP3. Its text
// has the wrong line.
type MalformedReply string

func (e MalformedReply) Error() string { return fmt.Sprintf("malformed reply %q", string(e)) }

// follows takes the first line of a reply with its line end. It returns how much comes
// after that line: a number of bytes and a number of nested replies. It returns an error if
// there are more than most.
func follows(line []byte, most int) (body, nested int, err error) {
	malformed := func() (int, int, error) { return 0, 0, MalformedReply(line[:min(len(line), 32)]) }
	if len(line) < 3 || line[len(line)-2] != '\r' {
		return malformed()
	}
	switch line[0] {
	case '+', '-', ':', ',', '#', '_', '(':
		return 0, 0, nil
	}
	size, ok := ParseInt(line[1 : len(line)-2])
	if !ok || size < -1 || size > int64(most) {
		return malformed()
	}
	n := max(int(size), 0)
	switch line[0] {
	case '$', '=', '!':
		if size < 0 { // null in RESP2
			return 0, 0, nil
		}
		return n + len("\r\n"), 0, nil
	case '*', '~', '>':
		return 0, n, nil
	case '%':
		return 0, 2 * n, nil
	case '|': // attributes precede the reply itself
		return 0, 2*n + 1, nil
	}
	return malformed()
}

// ReplyLen returns the length of the reply at the start of b, with all nested replies; 0 if
// the reply is incomplete. It returns an error if a part of the reply is larger than most.
func ReplyLen(b []byte, most int) (int, error) {
	n := 0
	for left := 1; left > 0; left-- {
		end := bytes.IndexByte(b[n:], '\n') + 1
		if end == 0 {
			return 0, nil
		}
		body, nested, err := follows(b[n:n+end], most)
		if err != nil {
			return 0, err
		}
		left += nested
		if n += end + body; n > len(b) {
			return 0, nil
		}
	}
	return n, nil
}

// AppendReply reads one reply of RESP2 or RESP3, with all nested replies, and appends its
// bytes to dst. It returns an error if dst would become longer than most.
func AppendReply(dst []byte, r *bufio.Reader, most int) ([]byte, error) {
	for left := 1; left > 0; left-- {
		start := len(dst)
		for {
			part, err := r.ReadSlice('\n')
			if len(dst)+len(part) > most {
				return dst, ErrReplyTooLong
			}
			dst = append(dst, part...)
			if err == nil {
				break
			}
			if !errors.Is(err, bufio.ErrBufferFull) {
				return dst, err
			}
		}
		body, nested, err := follows(dst[start:], most)
		if err != nil {
			return dst, err
		}
		left += nested
		if dst, err = appendBody(dst, r, body, most); err != nil {
			return dst, err
		}
	}
	return dst, nil
}

// appendBody reads n bytes.
func appendBody(dst []byte, r *bufio.Reader, n, most int) ([]byte, error) {
	if len(dst)+n > most {
		return dst, ErrReplyTooLong
	}
	for n > 0 {
		part, err := r.Peek(min(n, max(1, r.Buffered())))
		if err != nil {
			return dst, err
		}
		dst = append(dst, part...)
		n -= len(part)
		if _, err := r.Discard(len(part)); err != nil {
			return dst, err
		}
	}
	return dst, nil
}

// AppendCommand appends a command as clients send it.
func AppendCommand[S ~string | ~[]byte](dst []byte, args []S) []byte {
	w := Writer{B: dst}
	w.Array(len(args))
	for _, a := range args {
		w.header('$', len(a))
		w.B = append(append(w.B, a...), '\r', '\n')
	}
	return w.B
}
