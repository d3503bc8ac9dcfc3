package web

import (
	"net/http"
	"net/netip"
	"strings"
)

// clientIP returns the address of the client of a request. That is the peer, unless the
// peer is a trusted proxy. Then it is the rightmost address in X-Forwarded-For that is not
// a trusted proxy, or the leftmost if all are. The lines of X-Forwarded-For are one list,
// to which each proxy appends the address that it sees. Addresses further left are
// unverified; those further right are proxies. It returns false if that is not an address,
// or if a trusted peer sends no list.
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

// contains reports whether one of the networks has an address.
func contains(networks []netip.Prefix, addr netip.Addr) bool {
	for _, n := range networks {
		if n.Contains(addr) {
			return true
		}
	}
	return false
}

// maxAddress is longer than every address with a port.
const maxAddress = 64

// parseIP reads an address with or without port and brackets: proxies write all of these.
// An IPv4 address in IPv6 becomes IPv4, and a zone is dropped.
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

// callerIP is clientIP for a request.
func (a *api) callerIP(r *http.Request) (netip.Addr, bool) {
	return clientIP(r.RemoteAddr, r.Header["X-Forwarded-For"], a.trusted)
}
