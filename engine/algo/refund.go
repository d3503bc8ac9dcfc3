package algo

// # What is given back
//
// A refund gives back only what the state still holds of the charge: time has given back
// the rest. So a caller is never better off than without the call. The functions here
// require that the counter still has the mark that it had at the charge: then the state
// includes the charge.
//
// A bucket gives back the time that was charged, but at most the lowest use since then:
// see lows.go. The result is as if the call had cost the settled amount from the start.
//
// A window gives back from the count of the window that was charged, while that still
// counts. A log gives back from the entry that was charged.

// Receipt records what a limit was charged, and what is needed to give it back.
type Receipt struct {
	// Generation is the generation in the counter's mark, or 0 if the counter has no mark.
	Generation uint32
	// Taken is the charge: a time for a bucket; for other algorithms, units in the field
	// NS. Usually Whole is set: then the charge is the whole cost, and Taken is zero.
	Taken Span
	Whole bool
	// Stamp identifies the charge. For a bucket, it is the reservation's number among the
	// reservations that have charged the bucket. For a window, it is the start of the
	// window. For a log, it is the timestamp of the entry.
	Stamp Span
}

// Refund is what is given back from a state.
type Refund struct {
	// Next and Words are as Decide returns them. Write is set if something is given back.
	Next  State
	Words int
	Write bool

	given Span  // time that a bucket gives back
	units int64 // units that a log gives back, from the pair at place
	place int   // for a bucket, the first low after the charge
}

// Receipt describes a charge for a cost. The charge has changed the state was to next, or
// has added units to a list. m is the counter's mark after it.
func (r *Rule) Receipt(m *Mark, was, next State, now, cost, units int64) Receipt {
	c := Receipt{Generation: m.Generation}
	if charged := r.Decides.algorithm().charged; charged != nil {
		c.Taken, c.Stamp = charged(r, m, was, next, Clamp(now), units)
	}
	if c.Whole = c.Taken == r.takes(cost); c.Whole {
		c.Taken = Span{}
	}
	return c
}

// takes returns the charge of a call of a cost: time for a bucket, otherwise units in ns.
func (r *Rule) takes(cost int64) Span {
	if r.Decides.algorithm().timed {
		return times(uint64(cost), r.num, r.den)
	}
	return asSpan(cost)
}

// Excess returns how much of a charge for a cost is given back if the call is settled for
// less.
func (r *Rule) Excess(c *Receipt, cost, settled int64) Span {
	taken := c.Taken
	if c.Whole {
		taken = r.takes(cost)
	}
	return taken.sub(r.takes(settled))
}

// Refund plans to give back the excess of a charge, as far as it is still there. st is the
// state in record. record must have the mark that it had at the charge.
func (r *Rule) Refund(c *Receipt, st State, record []byte, now int64, excess Span) Refund {
	if refund := r.Decides.algorithm().refund; refund != nil {
		return refund(r, c, st, record, Clamp(now), excess)
	}
	return Refund{}
}

// Give writes a refund to a record, whose mark is m, and returns the record's new
// deadline. remains is false if nothing is left of the record.
func (r *Rule) Give(f *Refund, m *Mark, record []byte) (deadline int64, remains bool) {
	if r.HasList {
		newest, left := logRing(record).refund(f.place, f.units)
		return newest + r.Period, left
	}
	if f.Words == 0 {
		return 0, false
	}
	setWord(record, 0, f.Next.First)
	if f.Words == 2 {
		setWord(record, 1, f.Next.Second)
	}
	m.Put(r, record)
	if r.Decides.algorithm().timed {
		lowerLows(record, f.place, f.given)
	}
	return f.Next.Deadline, true
}

// Forcible returns how much of cost can be charged by force: as much as the state can
// hold.
func (r *Rule) Forcible(st State, list []byte, now, cost int64) int64 {
	if forcible := r.Decides.algorithm().forcible; forcible != nil {
		return forcible(r, st, list, Clamp(now), cost)
	}
	return 0
}

// Over returns by how many units the limit is overused, 0 if it is not in debt.
func (r *Rule) Over(st State, list []byte, now int64) int64 {
	if over := r.Decides.algorithm().over; over != nil {
		return max(over(r, st, list, Clamp(now)), 0)
	}
	return 0
}

// Force adds units to the newest entry of a full list. So they may count for too long,
// but never for too short a time. deadline is when they stop counting.
func (r *Rule) Force(list []byte, now, units int64) (deadline int64) {
	logRing(list).force(now, units)
	return Clamp(now) + r.Period
}

// asSpan returns units of a window or a log as the Span of a charge.
func asSpan(units int64) Span { return Span{NS: uint64(units)} }

func bucketCharged(_ *Rule, m *Mark, was, next State, now, _ int64) (taken, stamp Span) {
	return next.bucket().used(now).sub(was.bucket().used(now)), Span{NS: uint64(m.Held) + 1}
}

// refundBucket gives back at most the lowest use since the charge.
func refundBucket(_ *Rule, c *Receipt, st State, record []byte, now int64, excess Span) (f Refund) {
	used := st.bucket().used(now)
	least, at := lowSince(record, uint32(c.Stamp.NS), used)
	f.given, f.place = shorter(excess, least), at
	f.Write = f.given != Span{}
	if left := used.sub(f.given); left != (Span{}) {
		f.Next, f.Words = left.after(now).stored(), 1
	}
	return f
}

func bucketForcible(r *Rule, st State, _ []byte, now, cost int64) int64 {
	room := Span{NS: uint64(latestInstant - now)}.sub(st.bucket().used(now))
	return int64(min(uint64(cost), room.fit(r.num, r.den)))
}

func bucketOver(r *Rule, st State, _ []byte, now int64) int64 {
	if beyond := st.bucket().used(now).sub(r.capacity); beyond != (Span{}) {
		return int64(beyond.cover(r.num, r.den))
	}
	return 0
}

func fixedCharged(r *Rule, _ *Mark, was, next State, now, _ int64) (taken, stamp Span) {
	before, after := r.fixedAt(r.counts(was), now), r.counts(next)
	return asSpan(after.Cur - before.Cur), asSpan(after.Start)
}

func refundFixed(r *Rule, c *Receipt, st State, _ []byte, now int64, excess Span) Refund {
	was := r.counts(st)
	next := was
	if w := r.fixedAt(was, now); w.Start == int64(c.Stamp.NS) {
		if w.Cur -= min(int64(excess.NS), w.Cur); w.Cur == 0 {
			w = windowState{}
		}
		next = w
	}
	return Refund{Next: r.stored(next), Words: wordsIf(1, next.Cur > 0), Write: next != was}
}

func fixedForcible(r *Rule, st State, _ []byte, now, cost int64) int64 {
	return min(cost, MaxCount-r.fixedAt(r.counts(st), now).Cur)
}

func fixedOver(r *Rule, st State, _ []byte, now int64) int64 {
	return r.fixedAt(r.counts(st), now).Cur - r.Burst
}

func slidingCharged(r *Rule, _ *Mark, was, next State, now, _ int64) (taken, stamp Span) {
	before, after := r.slidingAt(r.counts(was), now), r.counts(next)
	return asSpan(after.Cur - before.Cur), asSpan(after.Start)
}

// refundSliding gives back from the count of the charge's window, the current window or
// the previous one.
func refundSliding(r *Rule, c *Receipt, st State, _ []byte, now int64, excess Span) Refund {
	was, units := r.counts(st), int64(excess.NS)
	next := r.slidingAt(was, now)
	switch int64(c.Stamp.NS) {
	case next.Start:
		next.Cur -= min(units, next.Cur)
	case next.Start - r.Period:
		next.Prev -= min(units, next.Prev)
	default:
		return Refund{Next: st, Words: 2}
	}
	switch {
	case next.Cur == 0 && next.Prev == 0:
		next = windowState{}
	case next.Cur == 0 && next.Start >= r.Period: // as in sliding
		next = windowState{Start: next.Start - r.Period, Cur: next.Prev}
	}
	return Refund{Next: r.stored(next), Words: wordsIf(2, next.Cur+next.Prev > 0), Write: next != was}
}

func slidingForcible(r *Rule, st State, _ []byte, now, cost int64) int64 {
	return min(cost, max(MaxCount-r.weigh(r.slidingAt(r.counts(st), now), now), 0))
}

func slidingOver(r *Rule, st State, _ []byte, now int64) int64 {
	return r.weigh(r.slidingAt(r.counts(st), now), now) - r.Burst
}

func calendarCharged(_ *Rule, _ *Mark, was, next State, now, _ int64) (taken, stamp Span) {
	used, _ := calendarAt(was, now)
	return asSpan(int64(next.First) - used), asSpan(next.Deadline)
}

// refundCalendar gives back from the charge's window, whose stamp is its end.
func refundCalendar(_ *Rule, c *Receipt, st State, _ []byte, now int64, excess Span) Refund {
	used, end := calendarAt(st, now)
	next := st
	if used > 0 && end == int64(c.Stamp.NS) {
		if used -= min(int64(excess.NS), used); used > 0 {
			next = State{Deadline: end, First: uint64(used)}
		} else {
			next = State{}
		}
	}
	write := next.Deadline != st.Deadline || next.First != st.First // Second may hold the mark
	return Refund{Next: next, Words: wordsIf(1, next.First > 0), Write: write}
}

func calendarForcible(_ *Rule, st State, _ []byte, now, cost int64) int64 {
	used, _ := calendarAt(st, now)
	return min(cost, MaxCount-used)
}

func calendarOver(r *Rule, st State, _ []byte, now int64) int64 {
	used, _ := calendarAt(st, now)
	return used - r.Burst
}

func logCharged(r *Rule, _ *Mark, _, next State, _, units int64) (taken, stamp Span) {
	return asSpan(units), asSpan(next.Deadline - r.Period)
}

// refundLog gives back from the charge's own entry.
func refundLog(r *Rule, c *Receipt, _ State, record []byte, now int64, excess Span) (f Refund) {
	f.units = int64(excess.NS)
	f.place, f.Write = logRing(record).entryOf(int64(c.Stamp.NS), now, r.Period)
	return f
}

func logForcible(_ *Rule, _ State, list []byte, _, cost int64) int64 {
	return min(cost, MaxCount-logRing(list).total())
}

func logOver(r *Rule, _ State, list []byte, now int64) int64 {
	_, used := logRing(list).live(now, r.Period)
	return used - r.Burst
}

// slotsCharged returns nothing: the list of holders records what was taken.
func slotsCharged(r *Rule, _ *Mark, _, _ State, now, units int64) (taken, stamp Span) {
	return asSpan(units), asSpan(now + r.Period)
}

// entryOf returns the place of the pair with a timestamp among those that count.
func (b logRing) entryOf(stamp, now, period int64) (i int, ok bool) {
	expired, _ := b.live(Clamp(now), period)
	head, count := b.span()
	for i = count - 1; i >= expired; i-- {
		if ts := b.word(b.slot(head, i)); ts <= stamp {
			return i, ts == stamp
		}
	}
	return 0, false
}

// refund takes units off the pair at place i, and removes an empty pair. It returns the
// timestamp of the newest pair that is left. If none is left, remains is false.
func (b logRing) refund(i int, units int64) (newest int64, remains bool) {
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

// force adds units to the newest pair of a full ring. So they may count for too long, but
// never for too short a time.
func (b logRing) force(now, units int64) {
	head, count := b.span()
	at := b.slot(head, count-1)
	b.setWord(at, max(b.word(at), Clamp(now)))
	b.setWord(at+1, b.word(at+1)+units)
	b.setWord(1, b.total()+units)
}
