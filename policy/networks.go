package policy

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"unsafe"

	"github.com/gaissmai/bart"
)

// networks is a set of networks of addresses.
type networks struct {
	few  []netip.Prefix // compared one by one
	many *bart.Lite     // nil: few has all
}

// fewNetworks is the number of networks up to which a loop is as fast as a trie.
const fewNetworks = 8

func newNetworks(ps []netip.Prefix) networks {
	if len(ps) <= fewNetworks {
		return networks{few: ps}
	}
	n := networks{many: new(bart.Lite)}
	for _, p := range ps {
		n.many.Insert(p)
	}
	return n
}

// empty reports whether there is no network.
func (n *networks) empty() bool { return len(n.few) == 0 && n.many == nil }

// has reports whether one of the networks has the address.
func (n *networks) has(a netip.Addr) bool {
	for _, p := range n.few {
		if p.Contains(a) {
			return true
		}
	}
	return n.many != nil && n.many.Contains(a)
}

// parseNetwork reads an address or a CIDR. The bits after a CIDR's prefix must be 0.
func parseNetwork(s string) (netip.Prefix, error) {
	text, length, found := strings.Cut(s, "/")
	if !found {
		a, ok := parseAddr(s)
		if !ok {
			return netip.Prefix{}, fmt.Errorf("%q is not an IP address or a CIDR such as 203.0.113.0/24", Clip(s))
		}
		return netip.PrefixFrom(a, a.BitLen()), nil
	}
	a, ok := parseAddr(text)
	n, err := parseBits(length)
	if !ok || err != nil {
		return netip.Prefix{}, fmt.Errorf("%q is not an IP address or a CIDR such as 203.0.113.0/24", Clip(s))
	}
	if strings.HasPrefix(strings.ToLower(text), "::ffff:") && a.Is4() {
		if n -= 96; n < 0 {
			return netip.Prefix{}, fmt.Errorf("%q: write a network of IPv4 addresses as 203.0.113.0/24", Clip(s))
		}
	}
	if n > a.BitLen() {
		return netip.Prefix{}, fmt.Errorf("%q: a prefix has 0 to %d bits", Clip(s), a.BitLen())
	}
	p, _ := a.Prefix(n)
	if p.Addr() != a {
		return netip.Prefix{}, fmt.Errorf("%q has bits set after its prefix, did you mean %s?", Clip(s), p)
	}
	return p, nil
}

// parseBits reads the length of a prefix.
func parseBits(s string) (int, error) {
	if s == "" || len(s) > 3 || len(s) > 1 && s[0] == '0' {
		return 0, errBits
	}
	n := 0
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return 0, errBits
		}
		n = n*10 + int(s[i]-'0')
	}
	return n, nil
}

var errBits = errors.New("not a length of a prefix")

// viewOf returns the bytes of a string, which must not be changed.
func viewOf(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }

// viewText returns bytes as a text, which is valid while they do not change.
func viewText(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
