package load

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/headgate-io/headgate/resp"
)

// Placeholder stands in an argument for the number of a key, in as many decimal digits.
// It is redis-benchmark's.
const Placeholder = "__rand_int__"

// maxKeys is the number of key numbers that fit Placeholder.
const maxKeys = 1_000_000_000_000

// template is a command in RESP with the offsets of its key numbers.
type template struct {
	raw   []byte
	holes []int
}

// compile encodes a command.
func compile(args []string) template {
	t := template{raw: resp.AppendCommand(nil, args)}
	for at := 0; ; at += len(Placeholder) {
		i := bytes.Index(t.raw[at:], []byte(Placeholder))
		if i < 0 {
			return t
		}
		at += i
		t.holes = append(t.holes, at)
	}
}

// append adds the command with key number n to dst.
func (t *template) append(dst []byte, n uint64) []byte {
	start := len(dst)
	dst = append(dst, t.raw...)
	for _, hole := range t.holes {
		PutDigits(dst[start+hole:start+hole+len(Placeholder)], n)
	}
	return dst
}

// PutDigits writes n over all of dst, in decimal with leading zeros.
func PutDigits(dst []byte, n uint64) {
	for i := len(dst) - 1; i >= 0; i-- {
		dst[i] = byte('0' + n%10)
		n /= 10
	}
}

// maxReply bounds a reply in bytes. It stops a server that is not one from
// making the generator buffer without bound.
const maxReply = 64 << 20

var errProtocol = errors.New("not a RESP reply")

// reply is what the generator looks at in a server's answer.
type reply struct {
	// first is the integer, or the first element of an array of integers.
	first int64
	// integer says that first holds one.
	integer bool
	// failure is the text of an error reply; it aliases the input.
	failure []byte
}

// scanReply reads one reply from the start of b and returns its length, which
// is 0 when b ends before the reply does.
func scanReply(b []byte) (out reply, n int, err error) {
	if n, err = resp.ReplyLen(b, maxReply); n == 0 || err != nil {
		if err != nil {
			err = fmt.Errorf("%w: %w", errProtocol, err)
		}
		return reply{}, 0, err
	}
	b = b[:n]
	if b[0] == '-' {
		out.failure = b[1 : n-2]
	}
	if b[0] == '*' {
		b = b[bytes.IndexByte(b, '\n')+1:]
	}
	if len(b) > 0 && b[0] == ':' {
		if out.first, out.integer = resp.ParseInt(b[1 : bytes.IndexByte(b, '\n')-1]); !out.integer {
			return reply{}, 0, errProtocol
		}
	}
	return out, n, nil
}

// verdict tells from a reply whether a limiter's check passed.
type verdict uint8

const (
	// notALimiter: the command's replies carry no decision.
	notALimiter verdict = iota
	// limitedFirst: the first integer is 1 when the call was limited.
	limitedFirst
	// allowedFirst: the first integer is what was allowed, 0 when denied.
	allowedFirst
)

// verdictOf knows the commands whose replies are decisions.
func verdictOf(command string) verdict {
	switch strings.ToUpper(command) {
	case "CL.THROTTLE", "RL.THROTTLE", "GCRA":
		return limitedFirst
	case "THROTTLE", "RL.LIMIT", "RL.CHECK", "RL.ACQUIRE":
		return allowedFirst
	}
	return notALimiter
}

// failureKind is the first word of an error reply: ERR, OOM, NOAUTH …
func failureKind(text []byte) string {
	word, _, _ := bytes.Cut(text, []byte(" "))
	return string(word)
}
