package algo

import (
	"encoding/binary"
	"fmt"
)

// A log's state is a ring of (timestamp, cost) pairs in the record of its key, 8-byte
// little-endian words:
//
//	word 0          index of the oldest pair (low 32 bits), number of pairs
//	word 1          total cost of the pairs
//	word 2+2i, 3+2i timestamp in unix ns, cost of pair i
//
// Pairs are in order of time, and calls of the same ns share a pair. A pair counts while
// now < timestamp+Period. Expired pairs stay in the ring until the next charge, because
// a denied call changes nothing.
//
// A charge takes four steps:
//
//  1. checkLog decides.
//  2. logNeed returns the words and the deadline of the new state.
//  3. If the record has another size, trimLog moves the pairs to the leading words, and a
//     resize keeps these.
//  4. logApply charges.
//
// The room of a ring is a power of two times logMinPairs pairs, up to log-max-entries,
// so a ring rarely grows. A log at its limit drops one pair for each new pair. Without a
// ring, this would move all other pairs.
const (
	logHeader   = 2 // words
	logMinPairs = 4
)

// logAlgorithm is the algorithm of logs.
var logAlgorithm = algorithm{
	list: true, window: periodOf, fits: fitsLog, split: splitUnits, multiple: multipleLog,
	scale: scaleLog, compact: (*Rule).trimLog, apply: (*Rule).logApply, applyCount: (*Rule).logCount,
	pressure: secondPressure, describe: describeLog,
	count: countLog, charged: logCharged, refund: refundLog, forcible: logForcible, over: logOver,
}

type logRing []byte

func (b logRing) word(i int) int64 { return int64(binary.LittleEndian.Uint64(b[8*i:])) }

func (b logRing) setWord(i int, v int64) { binary.LittleEndian.PutUint64(b[8*i:], uint64(v)) }

// pairs returns how many pairs b has room for.
func (b logRing) pairs() int { return max(len(b)/8-logHeader, 0) / 2 }

func (b logRing) span() (head, count int) {
	if len(b) == 0 {
		return 0, 0
	}
	w := b.word(0)
	return int(uint32(w)), int(uint32(w >> 32))
}

func (b logRing) setSpan(head, count int) { b.setWord(0, int64(head)|int64(count)<<32) }

func (b logRing) total() int64 {
	if len(b) == 0 {
		return 0
	}
	return b.word(1)
}

// slot returns the word at which the pair i places after index head starts.
func (b logRing) slot(head, i int) int {
	i += head
	if n := b.pairs(); i >= n {
		i -= n
	}
	return logHeader + 2*i
}

// live returns how many of the oldest pairs have expired at now, and the cost of the
// others.
func (b logRing) live(now, period int64) (expired int, used int64) {
	head, count := b.span()
	used = b.total()
	for expired < count {
		at := b.slot(head, expired)
		if now-b.word(at) < period {
			break
		}
		used -= b.word(at + 1)
		expired++
	}
	return expired, used
}

// newest returns the timestamp of the newest pair that is left after a refund, a cost of
// 0 or less, which is taken from the newest pairs. live is the number of live pairs then.
func (b logRing) newest(expired int, refund int64) (ts int64, live int) {
	head, count := b.span()
	for ; count > expired; count-- {
		at := b.slot(head, count-1)
		if refund += b.word(at + 1); refund > 0 {
			return b.word(at), count - expired
		}
	}
	return 0, 0
}

// checkLog checks a log limit: at most Limit units in any Period, exactly. buf is the
// key's state, which checkLog does not change; it is empty for a missing key. If write
// is true, the caller must call logApply with d.Allowed. o and d are as for token. A
// refund is taken from the newest pairs. Errors: ErrLogFull if the call needs more than
// maxEntries pairs, ErrOverflow for a forced cost.
//
// If the limit of a live key changes, nothing is converted: the pairs count under the
// new period and limit.
//
// Cost: O(expired pairs), plus O(pairs) for the retry time of a denied call.
func (r *Rule) checkLog(buf []byte, now, cost int64, o *Options, maxEntries int, d *Decision) (write bool, err error) {
	now = Clamp(now)
	b := logRing(buf)
	expired, used := b.live(now, r.Period)
	d.Allowed, d.OK, d.Limit = cost, true, r.Burst
	newest, left := b.newest(expired, min(cost, 0))
	switch {
	case cost > 0:
		granted, room, err := r.admit(used, cost, o)
		if err != nil {
			return false, err
		}
		d.Allowed = granted
		if granted == 0 {
			d.OK = false
			d.RetryAfter = r.logRetry(b, now, expired, used, room)
			break
		}
		if (left == 0 || newest < now) && left >= maxEntries {
			return false, ErrLogFull
		}
		newest = max(newest, now)
		used += granted
		write = true
	case cost < 0:
		after := lower(used, cost)
		write = after != used
		used = after
	}
	d.Remaining = max(r.Burst-used, 0)
	if used > 0 {
		d.ResetAfter = newest + r.Period - now
	}
	return write && !o.Peek, nil
}

// logRetry returns the wait until at most room units count, because enough of the oldest
// pairs have expired.
func (r *Rule) logRetry(b logRing, now int64, expired int, used, room int64) int64 {
	if room < 0 {
		return Never
	}
	head, _ := b.span()
	for i := expired; ; i++ {
		at := b.slot(head, i)
		if used -= b.word(at + 1); used <= room {
			return b.word(at) + r.Period - now
		}
	}
}

// logNeed returns the size and deadline of the state after a charge or refund. The
// deadline is when the newest pair stops counting. words is 0 if nothing is left and the
// key can be deleted.
func (r *Rule) logNeed(buf []byte, now, granted int64, maxEntries int) (words int, deadline int64) {
	now = Clamp(now)
	b := logRing(buf)
	expired, _ := b.live(now, r.Period)
	newest, left := b.newest(expired, min(granted, 0))
	if granted > 0 && (left == 0 || newest < now) {
		newest, left = now, left+1
	}
	if left == 0 {
		return 0, 0
	}
	return logHeader + 2*b.room(expired, left, maxEntries), newest + r.Period
}

// room returns how many pairs to make room for if left pairs stay.
func (b logRing) room(expired, left, maxEntries int) int {
	// A refunded pair still exists when the record is resized.
	_, count := b.span()
	most := max(left, count-expired)
	room := b.pairs()
	if most > room {
		room = logPairs(most, maxEntries)
	} else if most <= room/4 {
		// Halving only at a quarter avoids a resize each time when the log's size swings
		// around a power of two.
		room = min(room, logPairs(2*most, maxEntries))
	}
	return room
}

// logPairs returns the room to make for n pairs.
func logPairs(n, maxEntries int) int {
	room := logMinPairs
	for room < n {
		room *= 2
	}
	return max(min(room, maxEntries), n)
}

// trimLog drops expired pairs and moves the oldest pair to the front, so that the record
// can be resized.
func (r *Rule) trimLog(buf []byte, now int64) {
	b := logRing(buf)
	if b.pairs() == 0 {
		return
	}
	b.drop(Clamp(now), r.Period)
	head, count := b.span()
	// A rotation to the left is three reversals.
	b.reverse(0, head)
	b.reverse(head, b.pairs())
	b.reverse(0, b.pairs())
	b.setSpan(0, count)
}

// reverse reverses the pairs at indexes from..to-1.
func (b logRing) reverse(from, to int) {
	for to--; from < to; from, to = from+1, to-1 {
		x, y := b.slot(0, from), b.slot(0, to)
		for w := range 2 {
			p, q := b.word(x+w), b.word(y+w)
			b.setWord(x+w, q)
			b.setWord(y+w, p)
		}
	}
}

// drop removes the pairs that have expired at now.
func (b logRing) drop(now, period int64) {
	expired, used := b.live(now, period)
	if expired == 0 {
		return
	}
	head, count := b.span()
	b.setSpan((b.slot(head, expired)-logHeader)/2, count-expired)
	b.setWord(1, used)
}

// logApply charges granted units at now, or takes a refund from the newest pairs. buf
// must have the room that logNeed returned.
func (r *Rule) logApply(buf []byte, now, granted int64) {
	now = Clamp(now)
	b := logRing(buf)
	b.drop(now, r.Period)
	head, count := b.span()
	before := b.total()
	if granted < 0 {
		_, left := b.newest(0, granted)
		total := lower(before, granted)
		// The pairs beyond left go whole; the rest is part of the newest remaining pair.
		for ; count > left; count-- {
			before -= b.word(b.slot(head, count-1) + 1)
		}
		if left > 0 {
			at := b.slot(head, left-1)
			b.setWord(at+1, b.word(at+1)-(before-total))
		}
		b.setSpan(head, left)
		b.setWord(1, total)
		return
	}
	b.setWord(1, before+granted)
	if count > 0 {
		// A clock that was set back keeps the order: it adds to the newest.
		if at := b.slot(head, count-1); b.word(at) >= now {
			b.setWord(at+1, b.word(at+1)+granted)
			return
		}
	}
	at := b.slot(head, count)
	b.setWord(at, now)
	b.setWord(at+1, granted)
	b.setSpan(head, count+1)
}

// scaleLog is Rule.Scale for a log. It returns the pairs that count. Their costs are
// scaled so that all sums keep their share of the limit. A pair whose cost becomes 0 is
// dropped.
func scaleLog(r, old *Rule, st State, buf []byte, now int64) (State, []byte) {
	b := logRing(buf)
	expired, _ := b.live(Clamp(now), r.Period)
	head, count := b.span()
	ring := logRing(make([]byte, 8*(logHeader+2*(count-expired))))
	sum, total, pairs := int64(0), int64(0), 0
	for i := expired; i < count; i++ {
		at := b.slot(head, i)
		sum += b.word(at + 1)
		if next := int64(scaled(uint64(sum), uint64(r.Burst), uint64(old.Burst))); next > total {
			ring.setWord(logHeader+2*pairs, b.word(at))
			ring.setWord(logHeader+2*pairs+1, next-total)
			total, pairs = next, pairs+1
		}
	}
	ring.setSpan(0, pairs)
	ring.setWord(1, total)
	return st, ring[:8*(logHeader+2*pairs)]
}

// fitsLog refuses a log of more units than maxEntries: each unit might need an entry of
// its own.
func fitsLog(l Limit, maxEntries int) error {
	if l.Limit > int64(maxEntries) {
		return fmt.Errorf("%w: limit %d is above log-max-entries %d", ErrLogFull, l.Limit, maxEntries)
	}
	return nil
}

// multipleLog turns a log into a token bucket of half of n times the limit, which refills
// once in a period. So no period admits more than n times the limit. A log of that size
// would do too, but takes 16 bytes per call. With n = 1 it stays a log: a bucket of half
// the limit would deny a call that costs the whole limit.
func multipleLog(l Limit, m *Limit, n int64) {
	if n > 1 {
		m.Algorithm = Token
		m.Limit = min(int64(product(uint64(l.Limit), n, MaxCount)/2), max(l.Period, l.Limit))
	}
}

// secondPressure returns the pressure of logs and slots, whose second word is the total.
func secondPressure(r *Rule, st State, _ int64) uint32 { return share(st.Second, uint64(r.Burst)) }

func describeLog(r *Rule, _ State, list []byte, now int64) (u Usage) {
	b := logRing(list)
	expired, used := b.live(now, r.Period)
	_, count := b.span()
	u.Entries, u.Used = count-expired, used
	u.Fact("entries", int64(u.Entries))
	return u
}
