package headgate

import (
	"net/netip"
	"sync"
	"time"
)

// backstopTimes is how much more a backstop admits than the limit.
const backstopTimes = 10

// Backstop is a bucket per address in this process, in front of everything: ten times a
// limit. An IPv6 address counts by its /64. It keeps 10,000 addresses; the one that was
// seen longest ago goes first. It is safe for concurrent use.
type Backstop struct {
	mu    sync.Mutex
	f     fallback
	limit Limit
	began time.Time
}

// NewBackstop returns a backstop of ten times a limit.
func NewBackstop(l Limit) *Backstop {
	l = Limit{Units: backstopTimes * l.Units, Burst: backstopTimes * l.capacity(), Period: l.Period}
	b := &Backstop{limit: l, began: time.Now()}
	b.f.init(1)
	return b
}

// Allow asks for a unit of an address.
func (b *Backstop) Allow(a netip.Addr) Decision {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Since(b.began)
	r := b.f.record(subject{key: AddressKey(a), limit: b.limit})
	d, denied := b.f.denies(r, 1, now)
	if !denied {
		d = b.f.admit(r, 1, false, now)
	}
	d.Source, d.Degraded = Backstopped, false
	return d
}

// AddressKey returns what a client's address is counted by: of IPv6 the /64, since a client
// has all of it.
func AddressKey(a netip.Addr) string {
	a = a.Unmap().WithZone("")
	if a.Is6() {
		p, err := a.Prefix(64)
		if err == nil {
			return p.String()
		}
	}
	return a.String()
}
