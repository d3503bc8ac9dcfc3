package access

import (
	"hash/maphash"
	"net/netip"
	"sync"
	"time"
)

const (
	// guessBurst is how many wrong passwords of an address are answered at once. After each
	// guessPace the address gets one more.
	guessBurst = 10
	guessPace  = 100 * time.Millisecond
	// guessSlots is the number of slots by which addresses are told apart.
	guessSlots = 1024
)

// guesses bounds, by address, the wrong passwords that are answered at once. If an address
// has no guesses left, its credentials are not checked, so the answer reveals nothing. An
// address may repeat its last wrong credentials without losing a guess. So a gateway with
// an old token does not lock out others at its address.
//
// Memory is fixed. Addresses in the same slot share one bound.
type guesses struct {
	// mu guards slots.
	mu    sync.Mutex
	slots [guessSlots]struct {
		used  time.Time // time at which all guesses are available again
		wrong uint64    // hash of the last wrong credentials
	}
}

// guessSeed makes it unpredictable which addresses share a slot.
var guessSeed = maphash.MakeSeed()

// slotOf returns the slot of a peer's address. All IPv6 addresses of one network have the
// same slot.
func slotOf(address string) int {
	peer, _ := netip.ParseAddrPort(address)
	ip := peer.Addr().Unmap().WithZone("")
	if ip.Is6() {
		network, _ := ip.Prefix(64)
		ip = network.Addr()
	}
	return int(maphash.Comparable(guessSeed, ip) % guessSlots)
}

// hash returns a hash of the credentials.
func (s *Shown) hash() uint64 {
	return maphash.Comparable(guessSeed, [2]string{s.User, s.Password})
}

// left reports whether the address has guesses left, so that the credentials should be
// checked.
func (g *guesses) left(shown *Shown, now time.Time) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	slot := &g.slots[slotOf(shown.Address)]
	return slot.used.Sub(now) <= (guessBurst-1)*guessPace || slot.wrong == shown.hash()
}

// fail notes that the credentials were wrong.
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
