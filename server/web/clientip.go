package web

import (
	"net/http"
	"net/netip"
	"strings"
)

// clientIP returns the address of a request's client. If the peer is not a trusted
// proxy, the peer is the client. Otherwise the client is found in X-Forwarded-For, to
// which each proxy has appended the address that it saw. All lines of the field are one
// list. The client is the rightmost address in the list that is not a trusted proxy,
// because nobody has verified the addresses further left. If all are trusted proxies, it
// is the leftmost address. clientIP returns false if the list is missing, or if the text
// at that place is not an address.
func clientIP(peer string, forwarded []string, trusted []netip.Prefix) (netip.Addr, bool) {
	addr, ok := parseIP(peer)
	if !ok || !contains(trusted, addr) {
		return addr, ok
	}
	found := false
	for i := len(forwarded) - 1; i >= 0; i-- {
		for rest, more := forwarded[i], true; more; {
			var element string
			if at := strings.LastIndexByte(rest, ','); at >= 0 {
				rest, element = rest[:at], rest[at+1:]
			} else {
				element, more = rest, false
			}
			if addr, ok = parseIP(strings.Trim(element, " \t")); !ok {
				return netip.Addr{}, false
			}
			if !contains(trusted, addr) {
				return addr, true
			}
			found = true
		}
	}
	return addr, found
}

// trusts reports whether a peer is a trusted proxy.
func trusts(peer string, trusted []netip.Prefix) bool {
	addr, ok := parseIP(peer)
	return ok && contains(trusted, addr)
}

// contains reports whether addr is in one of the networks.
func contains(networks []netip.Prefix, addr netip.Addr) bool {
	for _, n := range networks {
		if n.Contains(addr) {
			return true
		}
	}
	return false
}

// maxAddress is longer than every address with a port, in bytes.
const maxAddress = 64

// parseIP reads an address with or without port and brackets, because proxies write all of
// these. It converts an IPv4 address in IPv6 to IPv4, and drops a zone.
func parseIP(s string) (netip.Addr, bool) {
	if len(s) > maxAddress {
		return netip.Addr{}, false
	}
	addr, err := netip.ParseAddr(s)
	if err != nil {
		var with netip.AddrPort
		if with, err = netip.ParseAddrPort(s); err == nil {
			addr = with.Addr()
		} else if n := len(s); n > 2 && s[0] == '[' && s[n-1] == ']' {
			if addr, err = netip.ParseAddr(s[1 : n-1]); !addr.Is6() {
				return netip.Addr{}, false
			}
		}
	}
	if err != nil {
		return netip.Addr{}, false
	}
	return addr.WithZone("").Unmap(), true
}

// callerIP returns clientIP of a request.
func (a *api) callerIP(r *http.Request) (netip.Addr, bool) {
	return clientIP(r.RemoteAddr, r.Header["X-Forwarded-For"], a.trusted)
}
