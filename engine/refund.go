package engine

import "slices"

// # What is given back
//
// A refund gives back only what time has not: what is left of the charge in the
// state. So a caller is never better off than if the call had not been made. The
// functions here are pure; they are asked for a counter whose mark is that of the
// charge, so that the state is what the charge has led to.
//
// Of a bucket it is the time charged, but no more than the least that was used at any
// time since: see lows.go. So the counter becomes the one that the same charges leave
// with the settled cost in place of the held one.
//
// Of a window it is from the count of the charge's own window, while that counts;
// of a log its own entry.

// asSpan is units of a window or a log in a charge.
func asSpan(units int64) span { return span{ns: uint64(units)} }

// refundBucket takes given, which is at most what is used, off a bucket.
func refundBucket(st tokenState, now int64, given span) tokenState {
	now = clampInstant(now)
	if left := st.used(now).sub(given); left != (span{}) {
		return left.after(now)
	}
	return tokenState{}
}

// refundFixed takes units off a fixed window.
func (r *rule) refundFixed(c *charge, st windowState, now, units int64) windowState {
	next := r.fixedAt(st, clampInstant(now))
	if next.Start != int64(c.stamp.ns) {
		return st
	}
	if next.Cur -= min(units, next.Cur); next.Cur == 0 {
		return windowState{}
	}
	return next
}

// refundSliding is refundFixed for a sliding window: from the count of the
// charge's window, be it the current one or the one before.
func (r *rule) refundSliding(c *charge, st windowState, now, units int64) windowState {
	next := r.slidingAt(st, clampInstant(now))
	switch int64(c.stamp.ns) {
	case next.Start:
		next.Cur -= min(units, next.Cur)
	case next.Start - r.period:
		next.Prev -= min(units, next.Prev)
	default:
		return st
	}
	switch {
	case next.Cur == 0 && next.Prev == 0:
		return windowState{}
	case next.Cur == 0 && next.Start >= r.period: // as in sliding
		return windowState{Start: next.Start - r.period, Cur: next.Prev}
	}
	return next
}

// refundCalendar is refundFixed for a window of a calendar, whose stamp is its end.
func (r *rule) refundCalendar(c *charge, st state, now, units int64) state {
	used, end := calendarAt(st, clampInstant(now))
	if used == 0 || end != int64(c.stamp.ns) {
		return st
	}
	if used -= min(units, used); used == 0 {
		return state{}
	}
	return state{deadline: end, first: uint64(used)}
}

// entryOf returns the place of the pair of a timestamp among those that count.
func (b logRing) entryOf(stamp, now, period int64) (i int, ok bool) {
	expired, _ := b.live(clampInstant(now), period)
	head, count := b.span()
	for i = count - 1; i >= expired; i-- {
		if ts := b.word(b.slot(head, i)); ts <= stamp {
			return i, ts == stamp
		}
	}
	return 0, false
}

// refundLog takes units off the pair at place i, and the pair out of the ring if
// nothing is left of it. It returns the timestamp of the newest pair; left is
// false when there is none.
func (b logRing) refundLog(i int, units int64) (newest int64, left bool) {
	head, count := b.span()
	at := b.slot(head, i)
	given := min(units, b.word(at+1))
	b.setWord(at+1, b.word(at+1)-given)
	b.setWord(1, b.total()-given)
	if b.word(at+1) == 0 {
		for ; i < count-1; i++ {
			to, from := b.slot(head, i), b.slot(head, i+1)
			b.setWord(to, b.word(from))
			b.setWord(to+1, b.word(from+1))
		}
		count--
		b.setSpan(head, count)
	}
	if count == 0 {
		return 0, false
	}
	return b.word(b.slot(head, count-1)), true
}

// forceLog charges units to a full ring, whose newest pair has to take them: it
// counts for longer then, never for less.
func (b logRing) forceLog(now, units int64) {
	head, count := b.span()
	at := b.slot(head, count-1)
	b.setWord(at, max(b.word(at), clampInstant(now)))
	b.setWord(at+1, b.word(at+1)+units)
	b.setWord(1, b.total()+units)
}

// forcible returns how much of cost can be charged by force: all, but for what no
// state can hold.
func (r *rule) forcible(st state, ring logRing, now, cost int64) int64 {
	now = clampInstant(now)
	switch r.decides {
	case Token, Leaky:
		room := span{ns: uint64(latestInstant - now)}.sub(st.bucket().used(now))
		return int64(min(uint64(cost), room.fit(r.num, r.den)))
	case Fixed:
		return min(cost, maxCount-r.fixedAt(r.counts(st), now).Cur)
	case Sliding:
		return min(cost, max(maxCount-r.weigh(r.slidingAt(r.counts(st), now), now), 0))
	case PolicyCalendar:
		used, _ := calendarAt(st, now)
		return min(cost, maxCount-used)
	case Log:
		return min(cost, maxCount-ring.total())
	}
	return 0
}

// over returns by how many units more than all is used; 0 for a limit that is not
// in debt.
func (r *rule) over(st state, ring logRing, now int64) int64 {
	now = clampInstant(now)
	used := int64(0)
	switch r.decides {
	case Token, Leaky:
		if beyond := st.bucket().used(now).sub(r.capacity); beyond != (span{}) {
			return int64(beyond.cover(r.num, r.den))
		}
		return 0
	case Fixed:
		used = r.fixedAt(r.counts(st), now).Cur
	case Sliding:
		used = r.weigh(r.slidingAt(r.counts(st), now), now)
	case PolicyCalendar:
		used, _ = calendarAt(st, now)
	case Log:
		_, used = ring.live(now, r.period)
	}
	return max(used-r.burst, 0)
}

// chargeOf describes what the plan of w charges for a cost. Its mark must be known.
func (w *weighed) chargeOf(now, cost int64) (c charge) {
	r, at := &w.it.rule, clampInstant(now)
	c.generation = w.mark.generation
	switch r.decides {
	case Token, Leaky:
		next := w.next.bucket()
		c.taken = next.used(at).sub(w.st.bucket().used(at))
		c.stamp = span{ns: uint64(w.mark.held) + 1}
	case Fixed:
		was, is := r.fixedAt(r.counts(w.st), at), r.counts(w.next)
		c.taken, c.stamp = asSpan(is.Cur-was.Cur), asSpan(is.Start)
	case Sliding:
		was, is := r.slidingAt(r.counts(w.st), at), r.counts(w.next)
		c.taken, c.stamp = asSpan(is.Cur-was.Cur), asSpan(is.Start)
	case PolicyCalendar:
		used, _ := calendarAt(w.st, at)
		c.taken, c.stamp = asSpan(int64(w.next.first)-used), asSpan(w.next.deadline)
	case Slots: // the lease tells
		c.taken, c.stamp = asSpan(cost), asSpan(at+r.period)
	case Log:
		c.taken, c.stamp = asSpan(w.d.Allowed), asSpan(w.next.deadline-r.period)
		if w.counted != 0 {
			c.taken = asSpan(w.counted)
		}
	}
	if c.whole = c.taken == r.takes(cost); c.whole {
		c.taken = span{}
	}
	return c
}

// takes returns what a call of a cost is charged: time of a bucket, else units in ns.
func (r *rule) takes(cost int64) span {
	if r.decides == Token || r.decides == Leaky {
		return times(uint64(cost), r.num, r.den)
	}
	return asSpan(cost)
}

// excess is how much of the charge is given back where the call costs less in the
// end: cost units in place of l.Cost.
func (l *Reserved) excess(r *rule, cost int64) span {
	taken := l.charge.taken
	if l.charge.whole {
		taken = r.takes(l.Cost)
	}
	return taken.sub(r.takes(cost))
}

// sorted returns the numbers of shards in order, each once.
func sorted(shards []int) []int {
	slices.Sort(shards)
	return slices.Compact(shards)
}
