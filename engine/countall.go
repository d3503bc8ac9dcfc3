package engine

import "math/bits"

// # Calls that are denied and count
//
// A policy's limit may count every call (Check.CountAll), and a soft one counts
// those that it would have denied. What is charged then does not fit: a window
// counts on; a bucket that counts all goes into debt by at most one period, and a
// log keeps its newest units, since those before them say nothing about when it
// has room again. A soft bucket or log stops at its end.

// most is how much of a limit may be used, its debt included.
func (r *rule) most(debt int64) int64 {
	debt = min(max(debt, 0), maxCount)
	return min(r.burst, maxCount-debt) + debt
}

// countBucket is the state of a bucket that a call of cost, 1 or more, is charged
// to, whether it fits or not: up to one period beyond the capacity, or to the end
// of the debt that is allowed, whichever is more.
func (r *rule) countBucket(st tokenState, now, cost, debt int64) tokenState {
	now = clampInstant(now)
	used := st.used(now)
	most := r.capacity.add(span{ns: uint64(r.period)})
	if debt > 0 {
		if room, _ := r.extended(&Options{Debt: debt}); most.less(room) {
			most = room
		}
	}
	charged := shorter(used.add(times(uint64(cost), r.num, r.den)), shorter(most, span{ns: maxSpan}))
	if charged.less(used) {
		charged = used
	}
	return charged.after(now)
}

// countWindow is the same of a window.
func (r *rule) countWindow(st windowState, now, cost int64) windowState {
	now = clampInstant(now)
	if r.decides == Sliding {
		st = r.slidingAt(st, now)
	} else {
		st = r.fixedAt(st, now)
	}
	st.Cur += min(cost, maxCount-st.Cur)
	return st
}

// countDenied plans that a call which is denied, or denied by this limit, is
// charged to it all the same, and makes w.d what the next such call would be
// answered. Of a limit that had room w.d becomes what it holds, and has the wait of
// the next call: see Verdict.prolong.
func (s *Session) countDenied(w *weighed, now int64, c *Check) {
	r := &w.it.rule
	switch r.decides {
	case Token, Leaky:
		next := r.countBucket(w.st.bucket(), now, c.Cost, c.Debt)
		w.next, w.words = next.stored(), 1
		at := clampInstant(now)
		w.forfeits = next.used(at) != w.st.bucket().used(at).add(times(uint64(c.Cost), r.num, r.den))
	case Fixed:
		w.next, w.words = r.stored(r.countWindow(r.counts(w.st), now, c.Cost)), 1
	case Sliding:
		w.next, w.words = r.stored(r.countWindow(r.counts(w.st), now, c.Cost)), 2
	case Log:
		w.write, w.err = s.countLog(w, now, c)
		return
	case PolicyCalendar:
		next, err := r.countCalendar(w.st, now, c.Cost, c.Window)
		if err != nil {
			w.write, w.err = false, err
			return
		}
		w.next, w.words = next, 1
	default: // blocked: nothing is counted
		return
	}
	after := w.plan
	opts := Options{Peek: true, Wait: c.Wait, Debt: c.Debt}
	after.d = Decision{}
	if w.err = s.evaluate(&after, w.next, now, c.Cost, &opts); w.err == nil && w.d.OK {
		retry := after.d.RetryAfter
		after.d = Decision{}
		w.err = s.evaluate(&after, w.next, now, 0, &opts)
		after.d.RetryAfter = retry
	}
	w.d, w.write = after.d, w.err == nil
}

// countLog is countDenied of a log.
func (s *Session) countLog(w *weighed, now int64, c *Check) (write bool, err error) {
	r, b, at := &w.it.rule, logRing(w.ring), clampInstant(now)
	if w.ring == nil {
		b = w.state()
	}
	expired, used := b.live(at, r.period)
	newest, live := b.newest(expired, 0)
	most := r.most(c.Debt)
	cost := min(c.Cost, most)
	if cost == 0 {
		return false, nil
	}
	w.forfeits = used+c.Cost > most
	left := live - b.oldest(expired, used+cost-most)
	if live == 0 || newest < at {
		newest = max(newest, at)
		left++
	}
	if left > s.e.logMaxEntries {
		return false, ErrLogFull
	}
	w.counted = cost
	w.words, w.next.deadline = logHeader+2*b.room(expired, left, s.e.logMaxEntries), newest+r.period

	after := min(used+cost, most)
	d := Decision{OK: w.d.OK, Limit: r.burst, Remaining: max(r.burst-after, 0), ResetAfter: newest + r.period - at}
	switch room := most - c.Cost; {
	case room < 0:
		d.RetryAfter = Never
	case after <= room:
	case room >= cost: // what is charged now may stay
		d.RetryAfter = r.logRetry(b, at, expired, used, room-cost)
	default:
		d.RetryAfter = newest + r.period - at
	}
	w.d = d
	return true, nil
}

// oldest returns how many of the pairs from the expired ones on go whole where
// the oldest units have to.
func (b logRing) oldest(expired int, units int64) (pairs int) {
	head, count := b.span()
	for i := expired; i < count; i++ {
		if units -= b.word(b.slot(head, i) + 1); units < 0 {
			break
		}
		pairs++
	}
	return pairs
}

// logCount charges cost units, at most most, at now, whether they fit or not, and
// keeps the newest units, most of them. buf must have the room that countLog told.
func (r *rule) logCount(buf []byte, now, cost, most int64) {
	b := logRing(buf)
	b.drop(clampInstant(now), r.period)
	if gone := b.total() + cost - most; gone > 0 {
		pairs := b.oldest(0, gone)
		head, count := b.span()
		total := b.total() - gone
		for i := range pairs {
			gone -= b.word(b.slot(head, i) + 1)
		}
		if pairs < count {
			at := b.slot(head, pairs)
			b.setWord(at+1, b.word(at+1)-gone)
			b.setSpan((at-logHeader)/2, count-pairs)
		} else {
			b.setSpan(0, 0)
		}
		b.setWord(1, total)
	}
	r.logApply(buf, now, cost)
}

// counts reports whether a, which decides, counts in windows, and can count on
// beyond their limit.
func (a Algorithm) counts() bool { return a == Fixed || a == Sliding || a == PolicyCalendar }

// fill plans that a call which a soft limit would have denied is charged to it
// all the same: as far as there is room, or by counting on.
func (s *Session) fill(w *weighed, now, cost int64) {
	if w.it.decides == Slots { // Reserve takes them
		return
	}
	opts := w.opts
	opts.Wait = 0
	opts.Force = w.it.decides.counts()
	opts.AtMost = !opts.Force
	w.forfeits = opts.AtMost && cost > 0
	w.d = Decision{}
	if w.err = s.evaluateWeighed(w, now, cost, &opts); w.err != nil {
		w.write = false
	}
	if w.forfeits && !w.write && !opts.Peek { // nothing was there
		s.unmark(w)
	}
}

// scaled returns a state that was written under old as it is under r if it keeps
// its share of what is used instead of its units, rounded up. That of a log is in
// its entries: see scaledLog.
func (r *rule) scaled(old *rule, st state, now int64) state {
	now = clampInstant(now)
	switch r.decides {
	case Token, Leaky:
		used := st.bucket().used(now)
		if used == (span{}) {
			return state{}
		}
		ns := scale(uint64(used.ceil()), r.capacity.ns, old.capacity.ns)
		return span{ns: min(ns, uint64(latestInstant-now))}.after(now).stored()
	case Fixed, Sliding:
		w := r.adoptWindow(old.counts(st), old, now)
		if w == (windowState{}) {
			return state{}
		}
		w.Prev = int64(scale(uint64(w.Prev), uint64(r.burst), uint64(old.burst)))
		w.Cur = int64(scale(uint64(w.Cur), uint64(r.burst), uint64(old.burst)))
		return r.stored(w)
	case PolicyCalendar:
		st.first = uint64(scale(min(st.first, maxCount), uint64(r.burst), uint64(old.burst)))
	}
	return st
}

// scaledLog is scaled for a log, which old has written: what counts of it, with
// costs whose sums keep their share. An entry of which nothing is left goes.
func (r *rule) scaledLog(old *rule, buf []byte, now int64) []byte {
	b := logRing(buf)
	expired, _ := b.live(clampInstant(now), r.period)
	head, count := b.span()
	ring := logRing(make([]byte, 8*(logHeader+2*(count-expired))))
	sum, total, pairs := int64(0), int64(0), 0
	for i := expired; i < count; i++ {
		at := b.slot(head, i)
		sum += b.word(at + 1)
		if next := int64(scale(uint64(sum), uint64(r.burst), uint64(old.burst))); next > total {
			ring.setWord(logHeader+2*pairs, b.word(at))
			ring.setWord(logHeader+2*pairs+1, next-total)
			total, pairs = next, pairs+1
		}
	}
	ring.setSpan(0, pairs)
	ring.setWord(1, total)
	return ring[:8*(logHeader+2*pairs)]
}

// scale returns n*to/of, rounded up, at most maxCount.
func scale(n, to, of uint64) uint64 {
	hi, lo := bits.Mul64(n, to)
	if hi >= of {
		return maxCount
	}
	q, rem := bits.Div64(hi, lo, of)
	if rem > 0 {
		q++
	}
	return min(q, maxCount)
}
