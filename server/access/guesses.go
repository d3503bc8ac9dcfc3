package access

import (
	"hash/maphash"
	"net/netip"
	"sync"
	"time"
)

const (
	// guessBurst is how many wrong passwords of an address are answered at once, one
	// after the other, and guessPace the time in which it has one more.
	guessBurst = 10
	guessPace  = 100 * time.Millisecond
	// guessSlots is how many addresses are told apart.
	guessSlots = 1024
)

// guesses bounds the wrong passwords that are answered at once, by address. An address
// without any left is not looked at, right or wrong: nothing can be learned from that.
// What it has shown last it may show again, since that is no guess: a gateway with an
// old token costs its neighbours nothing.
//
// Memory is fixed. Addresses that share a slot share its guesses.
type guesses struct {
	// mu guards slots.
	mu    sync.Mutex
	slots [guessSlots]struct {
		used  time.Time // when all guesses are there again
		wrong uint64    // the hash of what was wrong last
	}
}

// guessSeed keeps it unknown who shares a slot.
var guessSeed = maphash.MakeSeed()

// slotOf is the slot of a peer's address: that of a host, and of a network of IPv6.
func slotOf(address string) int {
	peer, _ := netip.ParseAddrPort(address)
	ip := peer.Addr().Unmap().WithZone("")
	if ip.Is6() {
		network, _ := ip.Prefix(64)
		ip = network.Addr()
	}
	return int(maphash.Comparable(guessSeed, ip) % guessSlots)
}

// hash tells apart what is shown.
func (s *Shown) hash() uint64 {
	return maphash.Comparable(guessSeed, [2]string{s.User, s.Password})
}

// left reports whether what is shown is to be looked at.
func (g *guesses) left(shown *Shown, now time.Time) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	slot := &g.slots[slotOf(shown.Address)]
	return slot.used.Sub(now) <= (guessBurst-1)*guessPace || slot.wrong == shown.hash()
}

// fail notes that what is shown is wrong.
func (g *guesses) fail(shown *Shown, now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	slot := &g.slots[slotOf(shown.Address)]
	if hash := shown.hash(); slot.wrong != hash {
		slot.wrong = hash
		if slot.used.Before(now) {
			slot.used = now
		}
		slot.used = slot.used.Add(guessPace)
	}
}
