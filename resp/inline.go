package resp

import "bytes"

// inline parses a line of words that was typed into a terminal. A line longer than
// MaxInline is an error, whether it arrives in one piece or in several. Redis accepts it in
// one piece.
func (p *Parser) inline(buf []byte, args [][]byte) ([][]byte, int, error) {
	nl := bytes.IndexByte(buf, '\n')
	if nl > MaxInline || nl < 0 && len(buf) > MaxInline {
		return args, 0, ErrInlineTooLong
	}
	if nl < 0 {
		return args, 0, nil
	}
	line := buf[:nl]
	if nl > 0 && line[nl-1] == '\r' {
		line = line[:nl-1]
	}
	args, ok := splitWords(line, args)
	if !ok {
		return args[:0], 0, ErrUnbalancedQuotes
	}
	return args, nl + 1, nil
}

// splitWords splits a line by Redis's quoting rules (sdssplitargs). Words are separated by
// spaces. "…" may contain \n \r \t \b \a, \xHH and escaped quotes; '…' may contain only \'.
// After a closing quote, a space or the end must follow. It removes the escapes in place,
// because the result is never longer than the text. It returns false for unbalanced quotes.
func splitWords(line []byte, args [][]byte) ([][]byte, bool) {
	i := 0
	for {
		for i < len(line) && isSpace(line[i]) {
			i++
		}
		// Redis treats the line as a C string: a NUL ends it.
		if i == len(line) || line[i] == 0 {
			return args, true
		}
		start, out := i, i
		for i < len(line) && !isSpace(line[i]) {
			switch line[i] {
			case '"', '\'':
				var ok bool
				if i, out, ok = unquote(line, i, out); !ok {
					return args, false
				}
				if i < len(line) && !isSpace(line[i]) {
					return args, false
				}
			case 0:
				line = line[:i]
			default:
				line[out] = line[i]
				out++
				i++
			}
		}
		args = append(args, line[start:out:out])
	}
}

// unquote copies the quoted text that begins at line[i] to line[out:], and returns the
// positions after both. It returns false if the closing quote is missing.
func unquote(line []byte, i, out int) (int, int, bool) {
	quote := line[i]
	for i++; i < len(line); {
		c := line[i]
		switch {
		case c == quote:
			return i + 1, out, true
		case c == 0:
			return 0, 0, false
		case quote == '\'' && c == '\\' && i+1 < len(line) && line[i+1] == '\'':
			c = '\''
			i += 2
		case quote == '"' && c == '\\' && i+3 < len(line) && line[i+1] == 'x' && isHex(line[i+2]) && isHex(line[i+3]):
			c = hexValue(line[i+2])<<4 | hexValue(line[i+3])
			i += 4
		case quote == '"' && c == '\\' && i+1 < len(line):
			c = unescape(line[i+1])
			i += 2
		default:
			i++
		}
		line[out] = c
		out++
	}
	return 0, 0, false
}

func unescape(c byte) byte {
	switch c {
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	case 'b':
		return '\b'
	case 'a':
		return '\a'
	}
	return c
}

func isSpace(c byte) bool { return c == ' ' || c >= '\t' && c <= '\r' }

func isHex(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
}

func hexValue(c byte) byte {
	switch {
	case c <= '9':
		return c - '0'
	case c <= 'F':
		return c - 'A' + 10
	}
	return c - 'a' + 10
}
