package route

import "strings"

// Slash says how to read an encoded slash, %2F, in a path.
type Slash uint8

// What an encoded slash in a path means. Servers differ: some read it as part of its
// segment, others as a slash.
const (
	SlashInSegment Slash = iota
	SlashSeparates
)

// Split returns the path and the query of a request's target. It leaves out a scheme and a
// host before the path. It returns false for a target without a path, such as `*`.
func Split(target string) (path, query string, ok bool) {
	if at := strings.Index(target, "://"); at > 0 && strings.IndexByte(target, '/') == at+1 {
		target = target[at+3:]
		slash := strings.IndexAny(target, "/?#")
		if slash < 0 || target[slash] != '/' {
			return "/", queryOf(target), true
		}
		target = target[slash:]
	}
	if target == "" || target[0] != '/' {
		return "", "", false
	}
	if end := strings.IndexAny(target, "?#"); end >= 0 {
		return target[:end], queryOf(target), true
	}
	return target, "", true
}

// queryOf returns the text after the first `?`.
func queryOf(target string) string {
	target, _, _ = strings.Cut(target, "#")
	_, query, _ := strings.Cut(target, "?")
	return query
}

// Clean returns a path in canonical spelling:
//
//   - Each %XX becomes its byte, once. With SlashInSegment an encoded slash stays `%2F`.
//   - Text after a `;` in a segment is dropped.
//   - Empty segments and `.` are dropped, and `..` drops the segment before it.
//   - A slash at the end is dropped, except for `/`.
//   - With fold, letters become lower case.
func Clean(path string, slash Slash, fold bool) string {
	if isClean(path, fold) {
		return path
	}
	b := append(make([]byte, 0, len(path)+1), '/')
	start := 1 // of the segment
	for i := 0; i <= len(path); i++ {
		c := byte('/')
		if i < len(path) {
			c = path[i]
		}
		separates := c == '/'
		switch {
		case c == ';':
			for i+1 < len(path) && path[i+1] != '/' {
				i++
			}
			continue
		case c == '%' && i+2 < len(path) && isHex(path[i+1]) && isHex(path[i+2]):
			c = unhex(path[i+1])<<4 | unhex(path[i+2])
			i += 2
			if separates = c == '/' && slash == SlashSeparates; c == '/' && !separates {
				b = append(b, "%2F"...)
				continue
			}
		}
		if !separates {
			if fold && c >= 'A' && c <= 'Z' {
				c += 'a' - 'A'
			}
			b = append(b, c)
			continue
		}
		switch string(b[start:]) {
		case "", ".":
			b = b[:start]
		case "..":
			b = parent(b[:start])
			start = len(b)
		default:
			b = append(b, '/')
			start = len(b)
		}
	}
	if len(b) > 1 {
		b = b[:len(b)-1]
	}
	return string(b)
}

// parent cuts the last segment of a path that ends with a slash.
func parent(b []byte) []byte {
	if len(b) == 1 {
		return b
	}
	for b = b[:len(b)-1]; b[len(b)-1] != '/'; {
		b = b[:len(b)-1]
	}
	return b
}

// isClean reports whether Clean would change nothing. For a few such paths it returns
// false.
func isClean(path string, fold bool) bool {
	if path == "" || path[0] != '/' || len(path) > 1 && path[len(path)-1] == '/' {
		return path == "/"
	}
	for i := range len(path) {
		switch c := path[i]; {
		case c == '/' && i+1 < len(path) && (path[i+1] == '/' || path[i+1] == '.'):
			return false
		case c == '%' || c == ';' || fold && c >= 'A' && c <= 'Z':
			return false
		}
	}
	return true
}

// HasEncodedSlash reports whether a path has an encoded slash, which servers read in
// different ways.
func HasEncodedSlash(path string) bool {
	return strings.Contains(path, "%2F") || strings.Contains(path, "%2f")
}

func isHex(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
}

func unhex(c byte) byte {
	if c <= '9' {
		return c - '0'
	}
	return c&0xf + 9
}

// Host returns the name of a host in canonical spelling: in lower case, without a port, and
// without dots at the end. If Host is applied to its own result, it changes nothing.
func Host(host string) string {
	literal := strings.LastIndexByte(host, ']') + 1 // of an IPv6 address
	if at := strings.IndexByte(host[literal:], ':'); at >= 0 {
		host = host[:literal+at]
	}
	return strings.ToLower(strings.TrimRight(host, "."))
}
