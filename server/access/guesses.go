package access

import (
	"hash/maphash"
	"net/netip"
	"sync"
	"time"
)

const (
	// guessBurst is how many wrong passwords of an address are answered at once. guessPace
	// is the time in which it gets one more.
	guessBurst = 10
	guessPace  = 100 * time.Millisecond
	// guessSlots bounds the addresses that are told apart.
	guessSlots = 1024
)

// guesses bounds, by address, the wrong passwords that are answered at once. Credentials of
// an address without guesses left are not checked, right or wrong, so they reveal nothing.
// It may repeat its last credentials, since that is no guess: a gateway with an old token
// costs its neighbours nothing.
//
// Memory is fixed. Addresses in the same slot have one bound together.
type guesses struct {
	// mu guards slots.
	mu    sync.Mutex
	slots [guessSlots]struct {
		used  time.Time // when all guesses are available again
		wrong uint64    // the hash of the last wrong credentials
	}
}

// guessSeed hides which addresses are in the same slot.
var guessSeed = maphash.MakeSeed()

// slotOf returns the slot of a peer's address: of a host, or of a network of IPv6.
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

// left reports whether the credentials are to be checked.
func (g *guesses) left(shown *Shown, now time.Time) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	slot := &g.slots[slotOf(shown.Address)]
	return slot.used.Sub(now) <= (guessBurst-1)*guessPace || slot.wrong == shown.hash()
}

// fail notes that the credentials are wrong.
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
