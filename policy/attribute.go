package policy

import (
	"encoding/hex"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Type says how the values of an attribute are converted before use. It is a set of bits:
// Lower and Secret may be combined.
type Type uint8

const (
	// IP is an address. It is printed in its canonical form. An IPv4 address in IPv6 is
	// printed without the ::ffff: before it.
	IP Type = 1 << iota
	// Lower is a text in Unicode's lower case.
	Lower
	// Secret is printed and kept as an HMAC of its value.
	Secret
)

var types = []struct {
	name string
	Type
}{{"ip", IP}, {"lower", Lower}, {"secret", Secret}}

// String returns the words of the grammar, "" for a plain type.
func (t Type) String() string {
	var words []string
	for _, x := range types {
		if t&x.Type != 0 {
			words = append(words, x.name)
		}
	}
	return strings.Join(words, ", ")
}

// reserved are the words that are options of RL.CHECK and similar commands.
var reserved = []string{"async", "cost", "fail", "force", "held", "id", "need", "peek", "seq", "sync", "ttl", "want"}

// IsWord reports whether s can be the name of an attribute or a limit.
func IsWord(s string) bool {
	if s == "" || len(s) > MaxWord || s[0] < 'a' || s[0] > 'z' {
		return false
	}
	for i := range len(s) {
		if b := s[i]; (b < 'a' || b > 'z') && (b < '0' || b > '9') && b != '_' {
			return false
		}
	}
	return true
}

// CheckAttributeName returns an error unless s can name an attribute. A name consists of
// a-z, 0-9 and _, and begins with a letter. It has at most MaxWord bytes, and is not an
// option of RL.CHECK and similar commands.
func CheckAttributeName(s string) error {
	if slices.Contains(reserved, s) {
		return fmt.Errorf("%q is an option and cannot name an attribute", s)
	}
	if IsWord(s) {
		return nil
	}
	if low := strings.ToLower(s); IsWord(low) && !slices.Contains(reserved, low) {
		return fmt.Errorf("%q does not name an attribute, did you mean %q?", s, low)
	}
	return fmt.Errorf("%q does not name an attribute: a-z, 0-9 and _, a letter first, %d at most", Clip(s), MaxWord)
}

// attributes maps the names that a policy uses to indexes.
type attributes struct {
	// slots has index+1 of the names, at the first free place from their hash.
	slots [2 * MaxAttributes]int8
	names []string
	types []Type
	// labels are the names in the form that keys have: `;name=`.
	labels []string
}

// hashName spreads short names. Any function would do.
func hashName(first, last byte, n int) uint {
	return uint(first)*7 + uint(last)*31 + uint(n)*13
}

// index returns the index of a name, or NoAttribute.
func (a *attributes) index(name []byte) int {
	if len(name) == 0 {
		return NoAttribute
	}
	h := hashName(name[0], name[len(name)-1], len(name))
	for {
		i := a.slots[h%uint(len(a.slots))]
		if i == 0 {
			return NoAttribute
		}
		if a.names[i-1] == string(name) {
			return int(i - 1)
		}
		h++
	}
}

// add returns the index of a name, and adds the name if it is new. The name must not be
// empty. ok is false if there are already MaxAttributes names.
func (a *attributes) add(name string, t Type) (int, bool) {
	if i := a.index([]byte(name)); i >= 0 {
		return i, true
	}
	if len(a.names) == MaxAttributes {
		return 0, false
	}
	label := ";" + name + "="
	a.names, a.types, a.labels = append(a.names, label[1:len(label)-1]), append(a.types, t), append(a.labels, label)
	h := hashName(name[0], name[len(name)-1], len(name))
	for a.slots[h%uint(len(a.slots))] != 0 {
		h++
	}
	a.slots[h%uint(len(a.slots))] = int8(len(a.names))
	return len(a.names) - 1, true
}

// parseAddr reads an address without a zone. The result does not refer to s.
func parseAddr(s string) (netip.Addr, bool) {
	if len(s) > 45 || strings.IndexByte(s, '%') >= 0 {
		return netip.Addr{}, false
	}
	a, err := netip.ParseAddr(s)
	return a.Unmap(), err == nil
}

// appendLower appends the lower case of a text. Bytes that are not UTF-8 stay.
func appendLower(dst, s []byte) []byte {
	for i := 0; i < len(s); {
		b := s[i]
		if b < utf8.RuneSelf {
			if b-'A' <= 'Z'-'A' {
				b += 'a' - 'A'
			}
			dst = append(dst, b)
			i++
			continue
		}
		r, n := utf8.DecodeRune(s[i:])
		if r == utf8.RuneError && n == 1 {
			dst = append(dst, b)
		} else {
			dst = utf8.AppendRune(dst, unicode.ToLower(r))
		}
		i += n
	}
	return dst
}

// digestBytes is how many bytes of a hash are printed, as two hex digits each.
const digestBytes = 16

// appendDigest appends `~` and the digits of a hash.
func appendDigest(dst, sum []byte) []byte {
	return hex.AppendEncode(append(dst, '~'), sum[:digestBytes])
}

// isDigest reports whether s is what appendDigest writes.
func isDigest(s []byte) bool {
	if len(s) != 1+2*digestBytes || s[0] != '~' {
		return false
	}
	for _, b := range s[1:] {
		if (b < '0' || b > '9') && (b < 'a' || b > 'f') {
			return false
		}
	}
	return true
}

// IPAttribute is the attribute that has type ip by default.
const IPAttribute = "ip"
