package policy

import (
	"crypto/sha256"
	"net/netip"
	"strings"
)

// maxEscaped is how many bytes a value may take in a key, including escapes. A longer value
// is replaced by a hash, so that keys stay shorter than 750 bytes.
const maxEscaped = 128

// escaped marks the bytes of values that are written as %XX: separators of keys, characters
// of SCAN's patterns, hash tags, and bytes that a terminal does not show. A ~ at the
// beginning is escaped too, because it marks hashes.
var escaped = func() (t [256]bool) {
	for b := range 0x21 {
		t[b] = true
	}
	t[0x7f] = true
	for _, b := range []byte(`%;{}*?[]\`) {
		t[b] = true
	}
	return t
}()

const hexDigits = "0123456789ABCDEF"

// AppendEscaped appends a value in the form that it has in keys.
func AppendEscaped(dst, value []byte) []byte {
	if len(value) > maxEscaped {
		return appendHashed(dst, value)
	}
	for i, b := range value {
		if escaped[b] || b == '~' && i == 0 {
			return appendRest(dst, value, i)
		}
	}
	return append(dst, value...)
}

// appendRest does the same as AppendEscaped for a value whose first byte to escape is at i.
func appendRest(dst, value []byte, i int) []byte {
	from := len(dst)
	dst = append(dst, value[:i]...)
	for ; i < len(value); i++ {
		b := value[i]
		if escaped[b] || b == '~' && i == 0 {
			dst = append(dst, '%', hexDigits[b>>4], hexDigits[b&15])
		} else {
			dst = append(dst, b)
		}
	}
	if len(dst)-from > maxEscaped {
		return appendHashed(dst[:from], value)
	}
	return dst
}

// appendHashed appends the hash of a value that is too long for a key.
func appendHashed(dst, value []byte) []byte {
	sum := sha256.Sum256(value)
	return appendDigest(dst, sum[:])
}

// appendPrefix appends the network of an address. The length is left out for a full
// address.
func appendPrefix(dst []byte, a netip.Addr, v4, v6 uint8) []byte {
	bits := v6
	if a.Is4() {
		bits = v4
	}
	if int(bits) == a.BitLen() {
		return a.AppendTo(dst)
	}
	p, _ := a.Prefix(int(bits))
	return p.AppendTo(dst)
}

// appendPart appends `;name=value` for a part of a limit's key. It returns false if no
// alternative is present.
func (c *Call) appendPart(dst []byte, part *byPart) ([]byte, bool) {
	for _, attr := range part.attrs {
		if c.present&(1<<uint(attr)) == 0 {
			continue
		}
		dst = append(dst, c.policy.attrs.labels[attr]...)
		return c.appendValue(dst, int(attr), part.v4, part.v6), true
	}
	return dst, false
}

// appendValue appends the value of an attribute, which must be present.
func (c *Call) appendValue(dst []byte, attr int, v4, v6 uint8) []byte {
	switch t := c.policy.attrs.types[attr]; {
	case t&IP != 0:
		return appendPrefix(dst, c.addrs[attr], v4, v6)
	case t&Secret != 0: // value is a digest
		return append(dst, c.values[attr]...)
	}
	return AppendEscaped(dst, c.values[attr])
}

// KeyPrefix returns what the keys of all counters of a policy begin with.
func KeyPrefix(policy string) string { return "@" + policy + ":" }

// limitPrefix returns what the keys of a limit's counters begin with.
func limitPrefix(policy, id string) []byte { return []byte(KeyPrefix(policy) + id) }

// Pair is an attribute and its value, as in a key.
type Pair struct {
	Name string
	// Value is the value after conversion by the attribute's type; a network includes its
	// length. If Hashed is set, Value is the printed form of a secret or of a long value.
	Value  string
	Hashed bool
}

// ParseKey splits the key of a policy's counter. It returns false for all other keys.
// Different parts always make different keys.
func ParseKey(key []byte) (policy, id string, pairs []Pair, ok bool) {
	s := string(key)
	if !strings.HasPrefix(s, "@") {
		return "", "", nil, false
	}
	head, rest, more := strings.Cut(s[1:], ";")
	policy, id, found := strings.Cut(head, ":")
	if !found || !isPolicyName(policy) || !IsWord(id) {
		return "", "", nil, false
	}
	for more {
		var part string
		part, rest, more = strings.Cut(rest, ";")
		name, text, found := strings.Cut(part, "=")
		if !found || !IsWord(name) {
			return "", "", nil, false
		}
		pair := Pair{Name: name}
		if isDigest([]byte(text)) {
			pair.Value, pair.Hashed = text, true
		} else if pair.Value, ok = unescape(text); !ok {
			return "", "", nil, false
		}
		pairs = append(pairs, pair)
	}
	return policy, id, pairs, len(pairs) <= MaxBy
}

// unescape returns the value for which AppendEscaped writes s, or false if there is none.
func unescape(s string) (string, bool) {
	if s == "" || len(s) > maxEscaped {
		return "", false
	}
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] != '%' {
			if escaped[s[i]] || s[i] == '~' && i == 0 {
				return "", false
			}
			b = append(b, s[i])
			continue
		}
		if i+2 >= len(s) {
			return "", false
		}
		high, low := strings.IndexByte(hexDigits, s[i+1]), strings.IndexByte(hexDigits, s[i+2])
		if high < 0 || low < 0 {
			return "", false
		}
		v := byte(high<<4 | low)
		if !escaped[v] && (v != '~' || len(b) > 0) {
			return "", false
		}
		b = append(b, v)
		i += 2
	}
	return string(b), true
}
