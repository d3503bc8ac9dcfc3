package web

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestClientIP(t *testing.T) {
	trusted := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8"), netip.MustParsePrefix("127.0.0.1/32")}
	f := func(peer string, forwarded []string, want string) {
		t.Helper()
		addr, ok := clientIP(peer, forwarded, trusted)
		require.Equal(t, want != "", ok, "%v", addr)
		if ok {
			require.Equal(t, want, addr.String())
		}
	}
	// The peer is the client, whatever it says.
	f("203.0.113.1:999", []string{"1.2.3.4"}, "203.0.113.1")
	f("[2001:db8::1%eth0]:999", nil, "2001:db8::1")
	f("[::ffff:203.0.113.1]:999", []string{"1.2.3.4"}, "203.0.113.1")
	f("@", []string{"1.2.3.4"}, "")
	// The list of a trusted peer is read from the right.
	f("10.0.0.1:999", []string{"203.0.113.9"}, "203.0.113.9")
	f("[::ffff:10.0.0.1]:999", []string{"203.0.113.9"}, "203.0.113.9")
	f("10.0.0.1:999", []string{"6.6.6.6, 203.0.113.9"}, "203.0.113.9")
	f("10.0.0.1:999", []string{"6.6.6.6, 203.0.113.9, 10.1.1.1,fd00::1"}, "203.0.113.9")
	f("10.0.0.1:999", []string{"6.6.6.6", "203.0.113.9", "10.1.1.1"}, "203.0.113.9")
	f("10.0.0.1:999", []string{"6.6.6.6,203.0.113.9 ", " 10.1.1.1\t"}, "203.0.113.9")
	f("10.0.0.1:999", []string{"203.0.113.9:1234"}, "203.0.113.9")
	f("10.0.0.1:999", []string{"[2001:db8::9]:1234"}, "2001:db8::9")
	f("10.0.0.1:999", []string{"[2001:db8::9]"}, "2001:db8::9")
	f("10.0.0.1:999", []string{"::ffff:203.0.113.9"}, "203.0.113.9")
	f("10.0.0.1:999", []string{"fe80::1%eth0"}, "fe80::1")
	// All are trusted: the one furthest away.
	f("10.0.0.1:999", []string{"10.0.0.3, 10.0.0.2"}, "10.0.0.3")
	// None, or none that can be believed.
	f("10.0.0.1:999", nil, "")
	f("10.0.0.1:999", []string{""}, "")
	f("10.0.0.1:999", []string{"203.0.113.9, "}, "")
	f("10.0.0.1:999", []string{"203.0.113.9, unknown"}, "")
	f("10.0.0.1:999", []string{"203.0.113.9, unknown, 10.0.0.2"}, "")
	f("10.0.0.1:999", []string{"203.0.113.9", ""}, "")
	f("10.0.0.1:999", []string{"[203.0.113.9]"}, "")
	f("10.0.0.1:999", []string{"203.0.113.09"}, "")
	f("10.0.0.1:999", []string{"203.0.113.9;"}, "")
	f("10.0.0.1:999", []string{"[]"}, "")
	f("10.0.0.1:999", []string{"["}, "")
	f("10.0.0.1:999", []string{strings.Repeat("1", 1000)}, "")
}

// Whatever a trusted peer sends, addresses left of the client change nothing, and the client is
// not a trusted proxy unless all are.
func FuzzClientIP(f *testing.F) {
	trusted := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("::/8")}
	f.Add("203.0.113.9, 10.0.0.1", "x")
	f.Add("203.0.113.9:80", "[2001:db8::1]:80, ::1")
	f.Add("", "fe80::1%a, ,")
	f.Fuzz(func(t *testing.T, forwarded, left string) {
		addr, ok := clientIP("10.0.0.1:999", []string{forwarded}, trusted)
		if ok {
			require.True(t, addr.IsValid())
			require.Empty(t, addr.Zone())
			require.False(t, addr.Is4In6())
		}
		if !ok || !contains(trusted, addr) {
			if !strings.Contains(forwarded, ",") && !ok && strings.Trim(forwarded, " \t") != "" || ok {
				more, also := clientIP("10.0.0.1:999", []string{left + "," + forwarded}, trusted)
				require.Equal(t, ok, also)
				require.Equal(t, addr, more)
			}
		}
		lines, also := clientIP("10.0.0.1:999", strings.Split(forwarded, ","), trusted)
		require.Equal(t, ok, also)
		require.Equal(t, addr, lines)
	})
}
