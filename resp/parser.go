package resp

import (
	"bytes"
	"math"
	"slices"
)

// MaxInline is the longest inline command, in bytes, and the longest line with a count or a
// length. It is Redis's PROTO_INLINE_MAX_SIZE.
const MaxInline = 64 << 10

// ProtocolError is a violation of the protocol, in Redis's words. The rest of the stream
// cannot be understood after it, so the connection must be closed.
type ProtocolError string

func (e ProtocolError) Error() string { return string(e) }

// These errors are returned by Parser.Next.
const (
	ErrUnauthMultibulk  ProtocolError = "Protocol error: unauthenticated multibulk length"
	ErrUnauthBulk       ProtocolError = "Protocol error: unauthenticated bulk length"
	ErrMultibulkLength  ProtocolError = "Protocol error: invalid multibulk length"
	ErrBulkLength       ProtocolError = "Protocol error: invalid bulk length"
	ErrMultibulkTooLong ProtocolError = "Protocol error: too big mbulk count string"
	ErrBulkTooLong      ProtocolError = "Protocol error: too big bulk count string"
	ErrInlineTooLong    ProtocolError = "Protocol error: too big inline request"
	ErrUnbalancedQuotes ProtocolError = "Protocol error: unbalanced quotes in request"
)

// Limits bound one command. The zero value admits nothing.
type Limits struct {
	// MaxArgs is the largest number of arguments, the command's name
	// included.
	MaxArgs int
	// MaxBulk is the longest argument in bytes.
	MaxBulk int
	// Unauthenticated selects the error for a command above the limits: the error for a
	// client that has not authenticated.
	Unauthenticated bool
}

// Unauthenticated holds Redis's bounds for a client before authentication: 10 arguments of
// 16 KiB.
var Unauthenticated = Limits{MaxArgs: 10, MaxBulk: 16 << 10, Unauthenticated: true}

// Parser finds the next command in a buffer that grows. The zero value is ready to use.
//
// A complete command in the usual form is parsed in one pass without state. Only for an
// incomplete command the parser keeps state: the positions of its arguments. So if a
// command arrives in many small pieces, the time is proportional to its length, not to the
// square of its length.
type Parser struct {
	active bool   // a multibulk command has begun and is incomplete
	pos    int    // the next byte to parse
	left   int    // arguments still to come
	bulk   int    // length of the argument at pos, or -1 while unknown
	spans  []span // the arguments found so far
}

// span is an argument's place, relative to the first byte of its command.
type span struct{ off, len int }

// spanSize is what a span takes, in bytes.
const spanSize = 16

// spansKept is for how many spans an idle parser may keep memory. It is enough for an
// ordinary command, and little even on ten thousand connections.
const spansKept = 16

// Held returns how many bytes of memory the parser takes for the arguments found so far of
// an incomplete command.
func (p *Parser) Held() int { return spanSize * cap(p.spans) }

// Needs returns how long the buffer must be for the argument that is still incomplete; 0 if
// that is unknown.
func (p *Parser) Needs() int {
	if !p.active || p.bulk < 0 {
		return 0
	}
	return p.pos + p.bulk + 2
}

// Next parses the command at the start of buf and appends its arguments to args[:0]. It
// returns how many bytes the command takes; 0 if buf contains no complete command. A
// command without arguments (an empty line, `*0`) takes bytes and returns no arguments.
//
// After Next has returned 0, the next call's buf must begin with the same bytes. Arguments
// refer to buf. In an inline command, the escapes of quoted arguments are removed in place.
func (p *Parser) Next(buf []byte, lim *Limits, args [][]byte) ([][]byte, int, error) {
	args = args[:0]
	if len(buf) == 0 {
		return args, 0, nil
	}
	if buf[0] != '*' {
		return p.inline(buf, args)
	}
	if !p.active {
		if args, n := whole(buf, lim, args); n > 0 {
			return args, n, nil
		}
	}
	return p.resume(buf, lim, args[:0])
}

// Ahead parses the command at the start of buf without consuming it. It appends the
// arguments to args and returns how many bytes they take. It returns 0 unless buf begins
// with a complete multibulk command in its usual form; Next parses all others. It must be
// called only at the start of a command.
func (p *Parser) Ahead(buf []byte, lim *Limits, args [][]byte) ([][]byte, int) {
	if p.active || len(buf) == 0 || buf[0] != '*' {
		return args, 0
	}
	return whole(buf, lim, args)
}

// whole parses a multibulk command that is complete, well-formed and within limits. For all
// others it returns 0, and resume then finds out what is wrong.
func whole(buf []byte, lim *Limits, args [][]byte) ([][]byte, int) {
	count, i := short(buf, 1)
	if i == 0 {
		count, i = number(buf, 1)
	}
	if i == 0 || count > lim.MaxArgs {
		return args, 0
	}
	for ; count > 0; count-- {
		if i >= len(buf) || buf[i] != '$' {
			return args, 0
		}
		n, body := short(buf, i+1)
		if body == 0 {
			n, body = number(buf, i+1)
		}
		if body == 0 || n > lim.MaxBulk || len(buf)-body < n+2 {
			return args, 0
		}
		args = append(args, buf[body:body+n:body+n])
		i = body + n + 2
	}
	return args, i
}

// short is number for one digit or two, as most lengths have; 0 is for all else.
// It is inlined.
func short(buf []byte, i int) (n, next int) {
	if len(buf) < i+4 {
		return
	}
	b := buf[i : i+4]
	tens, ones := int(b[0]-'0'), int(b[1]-'0')
	switch {
	case tens > 9:
	case b[1] == '\r':
		return tens, i + 3
	case tens > 0 && ones <= 9 && b[2] == '\r':
		return 10*tens + ones, i + 4
	}
	return
}

// number parses the decimal number at buf[i:] and its CRLF. It returns the position after
// them. It returns 0 if they are incomplete, or if the number is not in the plainest form
// (1 to 9 digits, no sign, no leading zero).
func number(buf []byte, i int) (n, next int) {
	j := i
	for ; j < len(buf); j++ {
		d := buf[j] - '0'
		if d > 9 {
			break
		}
		n = n*10 + int(d)
	}
	digits := j - i
	if digits == 0 || digits > 9 || j+1 >= len(buf) || buf[j] != '\r' {
		return 0, 0
	}
	if digits > 1 && buf[i] == '0' {
		return 0, 0
	}
	return n, j + 2
}

// resume parses what has arrived of a multibulk command, from where the last
// call stopped.
func (p *Parser) resume(buf []byte, lim *Limits, args [][]byte) ([][]byte, int, error) {
	if !p.active {
		count, next, err := header(buf, 0, ErrMultibulkTooLong, ErrMultibulkLength)
		if next == 0 || err != nil {
			return args, 0, err
		}
		switch {
		case count > int64(lim.MaxArgs) && lim.Unauthenticated:
			return args, 0, ErrUnauthMultibulk
		case count > int64(lim.MaxArgs):
			return args, 0, ErrMultibulkLength
		case count <= 0:
			return args, next, nil
		}
		p.active, p.pos, p.left, p.bulk = true, next, int(count), -1
		p.spans = p.spans[:0]
	}
	for p.left > 0 {
		if p.bulk < 0 {
			n, next, err := header(buf, p.pos, ErrBulkTooLong, ErrBulkLength)
			if next == 0 || err != nil {
				return args, 0, err
			}
			if c := buf[p.pos]; c != '$' {
				return args, 0, ProtocolError("Protocol error: expected '$', got '" + string(rune(c)) + "'")
			}
			switch {
			case n < 0:
				return args, 0, ErrBulkLength
			case n > int64(lim.MaxBulk) && lim.Unauthenticated:
				return args, 0, ErrUnauthBulk
			case n > int64(lim.MaxBulk):
				return args, 0, ErrBulkLength
			}
			p.pos, p.bulk = next, int(n)
		}
		if len(buf)-p.pos < p.bulk+2 {
			return args, 0, nil
		}
		p.spans = append(p.spans, span{p.pos, p.bulk})
		p.pos += p.bulk + 2
		p.bulk = -1
		p.left--
	}
	args = slices.Grow(args, len(p.spans)) // once: a million take longer to move
	for _, s := range p.spans {
		args = append(args, buf[s.off:s.off+s.len:s.off+s.len])
	}
	n := p.pos
	p.active = false
	p.spans = p.spans[:0]
	if cap(p.spans) > spansKept {
		p.spans = nil
	}
	return args, n, nil
}

// header parses the line at buf[i:], which is a type byte and a number. As in Redis, the
// line ends with a CR and one more byte, which may be any byte. header returns the
// position after the line; 0 if the line is incomplete.
func header(buf []byte, i int, tooLong, invalid ProtocolError) (n int64, next int, err error) {
	cr := bytes.IndexByte(buf[i:], '\r')
	if cr < 0 {
		if len(buf)-i > MaxInline {
			return 0, 0, tooLong
		}
		return 0, 0, nil
	}
	if i+cr+1 >= len(buf) {
		return 0, 0, nil
	}
	next = i + cr + 2
	if buf[i] == '$' || buf[i] == '*' {
		var ok bool
		if n, ok = ParseInt(buf[i+1 : i+cr]); !ok || n > math.MaxInt32 {
			return 0, 0, invalid
		}
	}
	return n, next, nil
}

// ParseInt parses a decimal 64-bit integer by the strict rules of Redis's string2ll: no
// plus sign, no leading zeros, no spaces, no overflow.
func ParseInt(b []byte) (int64, bool) {
	if len(b) == 0 {
		return 0, false
	}
	if len(b) == 1 { // as most are
		if d := b[0] - '0'; d <= 9 {
			return int64(d), true
		}
		return 0, false
	}
	negative := b[0] == '-'
	if negative {
		b = b[1:]
	}
	const mostDigits = 19 // which always fit
	if len(b) == 0 || len(b) > mostDigits || b[0] < '1' || b[0] > '9' {
		return 0, false
	}
	var n uint64
	for _, c := range b {
		d := uint64(c - '0')
		if d > 9 {
			return 0, false
		}
		n = n*10 + d
	}
	if negative {
		if n > 1<<63 {
			return 0, false
		}
		return int64(-n), true
	}
	if n > math.MaxInt64 {
		return 0, false
	}
	return int64(n), true
}
