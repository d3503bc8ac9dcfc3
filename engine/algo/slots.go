package algo

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
)

// A concurrency limit's state is a list of the holders of its slots, in the record of its
// key, 8-byte little-endian words:
//
//	word 0              number of holders
//	word 1              slots that they hold
//	word 2+4i … 5+4i    holder i: id (16 bytes), deadline in unix ns, cost
//
// Holders are in order of their deadlines, and holders with equal deadlines in order of
// arrival. A holder has its slots while now < deadline; cost is their number. Expired
// holders stay in the list until a call changes the list.
//
// An acquisition takes four steps:
//
//  1. Rule.Acquire decides.
//  2. Holders.Need returns the words and the deadline of the new state.
//  3. If the record has another size, Rule.Compact moves the holders to the leading words,
//     and a resize keeps these.
//  4. Holders.Acquire writes.
const (
	slotsHeader = 2 // words
	holderWords = 4
	holderBytes = 8 * holderWords
	// maxHolders bounds a key's holders: 128 KiB, which a linear search for an id reads
	// in a few microseconds.
	maxHolders = 4096
	// maxHolderID bounds the ids that users choose, in bytes.
	maxHolderID = 128
)

// slotsAlgorithm is the algorithm of limits of concurrent calls.
var slotsAlgorithm = algorithm{
	list: true, compact: func(_ *Rule, list []byte, now int64) { Holders(list).purge(now) },
	pressure: secondPressure, describe: describeSlots, charged: slotsCharged,
}

// HolderID identifies a holder within its key.
type HolderID [16]byte

// ParseHolderID returns the 128-bit form of a holder's id. 32 lower-case hex digits, as
// in generated ids, are its bytes. For anything else it is the first half of the SHA-256
// sum.
func ParseHolderID(s []byte) (id HolderID, err error) {
	if len(s) == 0 || len(s) > maxHolderID {
		return id, ErrHolderID
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

// String returns the 32 hex digits that ParseHolderID reads back.
func (id HolderID) String() string { return hex.EncodeToString(id[:]) }

// Holders is the record of a key's holders, empty for a missing key.
type Holders []byte

func (b Holders) word(i int) int64 { return int64(binary.LittleEndian.Uint64(b[8*i:])) }

func (b Holders) setWord(i int, v int64) { binary.LittleEndian.PutUint64(b[8*i:], uint64(v)) }

func (b Holders) count() int {
	if len(b) == 0 {
		return 0
	}
	return int(b.word(0))
}

// holders returns the bytes of holders from..to-1.
func (b Holders) holders(from, to int) []byte {
	return b[8*slotsHeader+holderBytes*from : 8*slotsHeader+holderBytes*to]
}

func (b Holders) deadline(i int) int64 { return b.word(slotsHeader + holderWords*i + 2) }

func (b Holders) cost(i int) int64 { return b.word(slotsHeader + holderWords*i + 3) }

// live returns how many holders have expired at now, and how many slots the others have.
func (b Holders) live(now int64) (expired int, used int64) {
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

// find returns the index of id among the holders from expired on, or -1.
func (b Holders) find(expired int, id HolderID) int {
	for i, n := expired, b.count(); i < n; i++ {
		if HolderID(b.holders(i, i+1)[:16]) == id {
			return i
		}
	}
	return -1
}

// remove removes holder i from the list.
func (b Holders) remove(i int) {
	n := b.count()
	b.setWord(1, b.word(1)-b.cost(i))
	copy(b.holders(i, n-1), b.holders(i+1, n))
	b.setWord(0, int64(n-1))
}

// insert puts a holder after those of the same or an earlier deadline.
func (b Holders) insert(id HolderID, deadline, cost int64) {
	n := b.count()
	i := n
	for i > 0 && b.deadline(i-1) > deadline {
		i--
	}
	copy(b.holders(i+1, n+1), b.holders(i, n))
	copy(b.holders(i, i+1), id[:])
	b.setWord(slotsHeader+holderWords*i+2, deadline)
	b.setWord(slotsHeader+holderWords*i+3, cost)
	b.setWord(0, int64(n+1))
	b.setWord(1, b.word(1)+cost)
}

// Acquire checks whether id may hold cost slots for ttl ns, beside the holders b, which
// are not changed. An id that holds slots renews them: it counts once, with the new cost
// and ttl. A denied renewal leaves the slots as they were.
//
// RetryAfter is the wait until enough holders have expired; a release or an extension
// changes it. ResetAfter is the wait until all have expired. Errors: ErrSlotTTL,
// ErrSlotCost, ErrSlotsFull.
func (r *Rule) Acquire(b Holders, now, ttl int64, id HolderID, cost int64) (d Decision, err error) {
	switch {
	case ttl < 1 || ttl > MaxSpan:
		return Decision{}, ErrSlotTTL
	case cost < 1:
		return Decision{}, ErrSlotCost
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
	if own < 0 && b.count()-expired >= maxHolders {
		return Decision{}, ErrSlotsFull
	}
	_, last := b.need(now, now+ttl, id)
	return Decision{
		Allowed: cost, OK: true, Limit: r.Burst,
		Remaining:  r.Burst - others - cost,
		ResetAfter: last - now,
	}, nil
}

// slotsDenied answers a call for more slots than the other holders leave. replaced is
// the index of the holder that the call would replace, or -1. now must be clamped.
func (r *Rule) slotsDenied(b Holders, now int64, replaced int, cost int64) Decision {
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
	if replaced >= 0 {
		used -= b.cost(replaced)
	}
	for i := expired; ; i++ {
		if i == replaced {
			continue
		}
		if used -= b.cost(i); used <= room {
			d.RetryAfter = b.deadline(i) - now
			return d
		}
	}
}

// need returns the number of holders, and their last deadline, after id has become a
// holder until deadline.
func (b Holders) need(now, deadline int64, id HolderID) (holders int, last int64) {
	n := b.count()
	expired, _ := b.live(now)
	own := b.find(expired, id)
	holders, last = n-expired+1, deadline
	if own >= 0 {
		holders--
	}
	// Find the last holder other than id.
	for i := n - 1; i >= expired; i-- {
		if i != own {
			return holders, max(last, b.deadline(i))
		}
	}
	return holders, last
}

// Need returns the size of the record after id has become a holder until deadline, and
// when the last holder expires.
func (b Holders) Need(now, deadline int64, id HolderID) (words int, last int64) {
	holders, last := b.need(Clamp(now), deadline, id)
	room := max(len(b)/8-slotsHeader, 0) / holderWords
	if holders > room || holders <= room/4 {
		room = 1
		for room < holders {
			room *= 2
		}
	}
	return slotsHeader + holderWords*room, last
}

// MaxHoldersWords is the size of a record with the most holders that a key may have.
const MaxHoldersWords = slotsHeader + holderWords*maxHolders

// purge drops the expired holders.
func (b Holders) purge(now int64) {
	expired, used := b.live(Clamp(now))
	if expired == 0 {
		return
	}
	n := b.count()
	copy(b.holders(0, n-expired), b.holders(expired, n))
	b.setWord(0, int64(n-expired))
	b.setWord(1, used)
}

// Acquire gives id cost slots until deadline, or renews its slots. b must have the room
// that Need returned.
func (b Holders) Acquire(now, deadline int64, id HolderID, cost int64) {
	b.purge(now)
	if own := b.find(0, id); own >= 0 {
		b.remove(own)
	}
	b.insert(id, deadline, cost)
}

// Holds reports whether id holds slots at now.
func (b Holders) Holds(now int64, id HolderID) bool {
	expired, _ := b.live(Clamp(now))
	return b.find(expired, id) >= 0
}

// Release removes id, which must be a holder. The list may be empty afterwards: see
// Deadline.
func (b Holders) Release(now int64, id HolderID) {
	b.purge(now)
	b.remove(b.find(0, id))
}

// Extend moves the deadline of id, earlier or later. id must be a holder.
func (b Holders) Extend(now, deadline int64, id HolderID) {
	b.purge(now)
	own := b.find(0, id)
	cost := b.cost(own)
	b.remove(own)
	b.insert(id, deadline, cost)
}

// Deadline returns when the last holder expires, 0 if there is none and the key can be
// deleted.
func (b Holders) Deadline() int64 {
	if b.count() == 0 {
		return 0
	}
	return b.deadline(b.count() - 1)
}

// AskSlot decides whether a new holder can have cost slots for the period of the limit.
// With a cost of 0 it only looks. Errors: ErrSlotsFull.
func (r *Rule) AskSlot(b Holders, now, cost int64) (Decision, error) {
	now = Clamp(now)
	expired, used := b.live(now)
	holders := b.count() - expired
	switch {
	case cost > 0 && used > r.Burst-cost:
		return r.slotsDenied(b, now, -1, cost), nil
	case cost > 0 && holders >= maxHolders:
		return Decision{}, ErrSlotsFull
	}
	d := Decision{Allowed: cost, OK: true, Limit: r.Burst, Remaining: max(r.Burst-used-cost, 0)}
	if holders > 0 {
		d.ResetAfter = b.deadline(b.count()-1) - now
	}
	if cost > 0 {
		d.ResetAfter = max(d.ResetAfter, r.Period)
	}
	return d, nil
}

func describeSlots(_ *Rule, _ State, list []byte, now int64) (u Usage) {
	b := Holders(list)
	expired, used := b.live(now)
	u.Entries, u.Used = b.count()-expired, used
	u.Fact("holders", int64(u.Entries))
	return u
}
