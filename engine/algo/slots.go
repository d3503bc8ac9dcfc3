package algo

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
)

// A concurrency limit's state is a list of leases in the record of its key,
// 8-byte little-endian words:
//
//	word 0              number of leases
//	word 1              total cost of the leases
//	word 2+4i … 5+4i    lease i: id (16 bytes), deadline in unix ns, cost
//
// Leases are in order of their deadlines, equal ones as they came. A lease
// holds its units while now < deadline; what has expired stays in the list
// until a call that changes it.
//
// A caller acquires in four steps: Rule.Acquire decides; Leases.Need tells the
// words and the deadline of the new state; when the record has another size,
// Rule.Compact and a resize that keeps the leading words; Leases.Acquire.
const (
	slotsHeader = 2 // words
	leaseWords  = 4
	leaseBytes  = 8 * leaseWords
	// maxLeases bounds a key's leases: 128 KiB, which a linear search for an
	// id reads in a few microseconds.
	maxLeases = 4096
	// maxLeaseID bounds the ids that users choose, in bytes.
	maxLeaseID = 128
)

// slotsAlgorithm is what limits of calls that run at once say.
var slotsAlgorithm = algorithm{
	list: true, compact: func(_ *Rule, list []byte, now int64) { Leases(list).purge(now) },
	pressure: secondPressure, describe: describeSlots, charged: slotsCharged,
}

// LeaseID identifies a lease within its key.
type LeaseID [16]byte

// ParseLeaseID returns the 128-bit form of a lease id: the bytes themselves of
// 32 lower-case hex digits, which is how generated ids are written; the first
// half of the SHA-256 sum of anything else.
func ParseLeaseID(s []byte) (id LeaseID, err error) {
	if len(s) == 0 || len(s) > maxLeaseID {
		return id, ErrLeaseID
	}
	if len(s) == 2*len(id) && !bytes.ContainsAny(s, "ABCDEF") {
		if _, err := hex.Decode(id[:], s); err == nil {
			return id, nil
		}
	}
	sum := sha256.Sum256(s)
	copy(id[:], sum[:])
	return id, nil
}

// String returns the 32 hex digits that ParseLeaseID reads back.
func (id LeaseID) String() string { return hex.EncodeToString(id[:]) }

// Leases is the record of a key's leases, empty for a missing key.
type Leases []byte

func (b Leases) word(i int) int64 { return int64(binary.LittleEndian.Uint64(b[8*i:])) }

func (b Leases) setWord(i int, v int64) { binary.LittleEndian.PutUint64(b[8*i:], uint64(v)) }

func (b Leases) count() int {
	if len(b) == 0 {
		return 0
	}
	return int(b.word(0))
}

// lease returns the bytes of leases from..to-1.
func (b Leases) leases(from, to int) []byte {
	return b[8*slotsHeader+leaseBytes*from : 8*slotsHeader+leaseBytes*to]
}

func (b Leases) deadline(i int) int64 { return b.word(slotsHeader + leaseWords*i + 2) }

func (b Leases) cost(i int) int64 { return b.word(slotsHeader + leaseWords*i + 3) }

// live returns how many leases have expired at now, and what the others hold.
func (b Leases) live(now int64) (expired int, used int64) {
	n := b.count()
	if n == 0 {
		return 0, 0
	}
	used = b.word(1)
	for expired < n && b.deadline(expired) <= now {
		used -= b.cost(expired)
		expired++
	}
	return expired, used
}

// find returns the index of id among the leases from expired on, or -1.
func (b Leases) find(expired int, id LeaseID) int {
	for i, n := expired, b.count(); i < n; i++ {
		if LeaseID(b.leases(i, i+1)[:16]) == id {
			return i
		}
	}
	return -1
}

// remove takes lease i out of the list.
func (b Leases) remove(i int) {
	n := b.count()
	b.setWord(1, b.word(1)-b.cost(i))
	copy(b.leases(i, n-1), b.leases(i+1, n))
	b.setWord(0, int64(n-1))
}

// insert puts a lease behind those of the same or an earlier deadline.
func (b Leases) insert(id LeaseID, deadline, cost int64) {
	n := b.count()
	i := n
	for i > 0 && b.deadline(i-1) > deadline {
		i--
	}
	copy(b.leases(i+1, n+1), b.leases(i, n))
	copy(b.leases(i, i+1), id[:])
	b.setWord(slotsHeader+leaseWords*i+2, deadline)
	b.setWord(slotsHeader+leaseWords*i+3, cost)
	b.setWord(0, int64(n+1))
	b.setWord(1, b.word(1)+cost)
}

// Acquire checks whether id may hold cost units for ttl ns of a concurrency limit,
// beside the leases b, which are not changed. An id that holds a lease renews it: it counts once, with the
// new cost and ttl; a renewal that is denied leaves the old lease as it was.
//
// RetryAfter is when enough leases will have expired by themselves; a release
// or an extension moves it. ResetAfter is when all will have. Errors:
// ErrLeaseTTL, ErrLeaseCost, ErrSlotsFull.
func (r *Rule) Acquire(b Leases, now, ttl int64, id LeaseID, cost int64) (d Decision, err error) {
	switch {
	case ttl < 1 || ttl > MaxSpan:
		return Decision{}, ErrLeaseTTL
	case cost < 1:
		return Decision{}, ErrLeaseCost
	}
	now = Clamp(now)
	expired, used := b.live(now)
	own := b.find(expired, id)
	others := used
	if own >= 0 {
		others -= b.cost(own)
	}
	if others > r.Burst-cost {
		return r.slotsDenied(b, now, own, cost), nil
	}
	if own < 0 && b.count()-expired >= maxLeases {
		return Decision{}, ErrSlotsFull
	}
	_, last := b.need(now, now+ttl, id)
	return Decision{
		Allowed: cost, OK: true, Limit: r.Burst,
		Remaining:  r.Burst - others - cost,
		ResetAfter: last - now,
	}, nil
}

// slotsDenied answers a call for more units than the other leases leave. own is
// the index of the lease that it would replace, -1 for none. now must be
// clamped.
func (r *Rule) slotsDenied(b Leases, now int64, own int, cost int64) Decision {
	n := b.count()
	expired, used := b.live(now)
	d := Decision{Limit: r.Burst, Remaining: max(r.Burst-used, 0), RetryAfter: Never}
	if n > expired {
		d.ResetAfter = b.deadline(n-1) - now
	}
	room := r.Burst - cost
	if room < 0 {
		return d
	}
	if own >= 0 {
		used -= b.cost(own)
	}
	for i := expired; ; i++ {
		if i == own {
			continue
		}
		if used -= b.cost(i); used <= room {
			d.RetryAfter = b.deadline(i) - now
			return d
		}
	}
}

// need returns how many leases there are once id has one until deadline, and
// the last deadline then.
func (b Leases) need(now, deadline int64, id LeaseID) (leases int, last int64) {
	n := b.count()
	expired, _ := b.live(now)
	own := b.find(expired, id)
	leases, last = n-expired+1, deadline
	if own >= 0 {
		leases--
	}
	// The last lease but id's own.
	for i := n - 1; i >= expired; i-- {
		if i != own {
			return leases, max(last, b.deadline(i))
		}
	}
	return leases, last
}

// Need returns the size of the state once id holds a lease until deadline, and when
// the last lease expires.
func (b Leases) Need(now, deadline int64, id LeaseID) (words int, last int64) {
	leases, last := b.need(Clamp(now), deadline, id)
	room := max(len(b)/8-slotsHeader, 0) / leaseWords
	if leases > room || leases <= room/4 {
		room = 1
		for room < leases {
			room *= 2
		}
	}
	return slotsHeader + leaseWords*room, last
}

// MaxLeasesWords is the size of a record of as many leases as a key may have.
const MaxLeasesWords = slotsHeader + leaseWords*maxLeases

// purge drops the expired leases.
func (b Leases) purge(now int64) {
	expired, used := b.live(Clamp(now))
	if expired == 0 {
		return
	}
	n := b.count()
	copy(b.leases(0, n-expired), b.leases(expired, n))
	b.setWord(0, int64(n-expired))
	b.setWord(1, used)
}

// Acquire gives id a lease of cost units until deadline, or renews its lease. b must
// have the room that Need told.
func (b Leases) Acquire(now, deadline int64, id LeaseID, cost int64) {
	b.purge(now)
	if own := b.find(0, id); own >= 0 {
		b.remove(own)
	}
	b.insert(id, deadline, cost)
}

// Holds reports whether id holds a lease at now.
func (b Leases) Holds(now int64, id LeaseID) bool {
	expired, _ := b.live(Clamp(now))
	return b.find(expired, id) >= 0
}

// Release ends id's lease. It must hold one. Nothing may be left: see Deadline.
func (b Leases) Release(now int64, id LeaseID) {
	b.purge(now)
	b.remove(b.find(0, id))
}

// Extend moves the end of id's lease to deadline, earlier or later. It must hold one.
func (b Leases) Extend(now, deadline int64, id LeaseID) {
	b.purge(now)
	own := b.find(0, id)
	cost := b.cost(own)
	b.remove(own)
	b.insert(id, deadline, cost)
}

// Deadline returns when the last lease expires, 0 when there is none and the key can
// be deleted.
func (b Leases) Deadline() int64 {
	if b.count() == 0 {
		return 0
	}
	return b.deadline(b.count() - 1)
}

// AskSlot decides whether a lease that is not there yet can hold cost units for
// the period of the limit. A cost of 0 looks. Errors: ErrSlotsFull.
func (r *Rule) AskSlot(b Leases, now, cost int64) (Decision, error) {
	now = Clamp(now)
	expired, used := b.live(now)
	leases := b.count() - expired
	switch {
	case cost > 0 && used > r.Burst-cost:
		return r.slotsDenied(b, now, -1, cost), nil
	case cost > 0 && leases >= maxLeases:
		return Decision{}, ErrSlotsFull
	}
	d := Decision{Allowed: cost, OK: true, Limit: r.Burst, Remaining: max(r.Burst-used-cost, 0)}
	if leases > 0 {
		d.ResetAfter = b.deadline(b.count()-1) - now
	}
	if cost > 0 {
		d.ResetAfter = max(d.ResetAfter, r.Period)
	}
	return d, nil
}

func describeSlots(_ *Rule, _ State, list []byte, now int64) (u Usage) {
	b := Leases(list)
	expired, used := b.live(now)
	u.Entries, u.Used = b.count()-expired, used
	u.Fact("leases", int64(u.Entries))
	return u
}
