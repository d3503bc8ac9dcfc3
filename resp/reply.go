package resp

import (
	"bufio"
	"errors"
	"fmt"
)

// ErrReplyTooLong is returned by AppendReply for a reply above its bound.
var ErrReplyTooLong = errors.New("reply is too long")

// AppendReply reads one reply of either protocol, with everything that is
// nested in it, and appends its bytes to dst, which must not grow beyond most.
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
		line := dst[start:]
		if len(line) < 3 || line[len(line)-2] != '\r' {
			return dst, fmt.Errorf("malformed reply %q", line[:min(len(line), 32)])
		}
		switch line[0] {
		case '+', '-', ':', ',', '#', '_', '(':
			continue
		}
		n, ok := ParseInt(line[1 : len(line)-2])
		if !ok || n < -1 || n > int64(most) {
			return dst, fmt.Errorf("malformed reply %q", line[:min(len(line), 32)])
		}
		n = max(n, 0)
		switch line[0] {
		case '$', '=', '!':
			if line[1] == '-' {
				continue
			}
			var err error
			if dst, err = appendBody(dst, r, int(n)+len("\r\n"), most); err != nil {
				return dst, err
			}
		case '*', '~', '>':
			left += int(n)
		case '%':
			left += 2 * int(n)
		case '|': // attributes precede the reply itself
			left += 2*int(n) + 1
		default:
			return dst, fmt.Errorf("unknown reply type %q", line[0])
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
func AppendCommand(dst []byte, args [][]byte) []byte {
	w := Writer{B: dst}
	w.Array(len(args))
	for _, a := range args {
		w.Bulk(a)
	}
	return w.B
}
