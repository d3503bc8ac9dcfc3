package algo

// # Calls that are denied and count
//
// A policy's limit may count every call, also one that is denied. A soft limit counts
// each call that it would deny if it were enforced. Such a charge does not fit:
//
//   - A window counts beyond its limit.
//   - A bucket goes into debt by at most one period.
//   - A log keeps its newest units: earlier ones do not affect when it has room again.

// Count is the charge of a call that does not fit.
type Count struct {
	// Next and Words are as Decide returns them. Write is set if there is something to
	// store.
	Next  State
	Words int
	Write bool
	// Units is the charge to a list: see Rule.ApplyCount.
	Units int64
	// Forfeits is set if, after this charge, earlier charges can no longer be given back.
	Forfeits bool
}

// Count plans the charge of a call that this or another limit denies. d holds this limit's
// decision. Count replaces it by the decision that the same call would get next. If the
// limit had room, d gets what the limit holds now and the wait of that next call. It
// returns the errors of Decide. After an error nothing may be stored.
func (r *Rule) Count(in *Input, d *Decision) (Count, error) {
	count := r.Decides.algorithm().count
	if count == nil { // a limit of 0 counts nothing
		return Count{}, nil
	}
	return count(r, *in, d)
}

// answer sets d as Count describes, for a state that is not a list.
func (r *Rule) answer(c Count, in *Input, d *Decision) (Count, error) {
	peek := Options{Peek: true, Wait: in.Options.Wait, Debt: in.Options.Debt}
	next := Input{State: c.Next, Now: in.Now, Cost: in.Cost, Options: &peek}
	room := d.OK
	*d = Decision{}
	_, _, _, err := r.Decide(&next, d)
	if err == nil && room {
		retry := d.RetryAfter
		*d, next.Cost = Decision{}, 0
		_, _, _, err = r.Decide(&next, d)
		d.RetryAfter = retry
	}
	c.Write = err == nil
	return c, err
}

// most returns how much of a limit may be used, including its debt.
func (r *Rule) most(debt int64) int64 {
	debt = min(max(debt, 0), MaxCount)
	return min(r.Burst, MaxCount-debt) + debt
}

// countBucket charges a bucket up to one period beyond the capacity, or to the end of the
// allowed debt, whichever is more.
func countBucket(r *Rule, in Input, d *Decision) (Count, error) {
	now := Clamp(in.Now)
	used := in.State.bucket().used(now)
	most := r.capacity.add(Span{NS: uint64(r.Period)})
	if in.Options.Debt > 0 {
		if room, _ := r.extended(&Options{Debt: in.Options.Debt}); most.less(room) {
			most = room
		}
	}
	all := used.add(times(uint64(in.Cost), r.num, r.den))
	charged := shorter(all, shorter(most, Span{NS: MaxSpan}))
	if charged.less(used) {
		charged = used
	}
	next := charged.after(now)
	return r.answer(Count{Next: next.stored(), Words: 1, Forfeits: next.used(now) != all}, &in, d)
}

func countFixed(r *Rule, in Input, d *Decision) (Count, error) {
	st := r.fixedAt(r.counts(in.State), Clamp(in.Now))
	st.Cur += min(in.Cost, MaxCount-st.Cur)
	return r.answer(Count{Next: r.stored(st), Words: 1}, &in, d)
}

func countSliding(r *Rule, in Input, d *Decision) (Count, error) {
	st := r.slidingAt(r.counts(in.State), Clamp(in.Now))
	st.Cur += min(in.Cost, MaxCount-st.Cur)
	return r.answer(Count{Next: r.stored(st), Words: 2}, &in, d)
}

func countCalendar(r *Rule, in Input, d *Decision) (Count, error) {
	now := Clamp(in.Now)
	used, end := calendarAt(in.State, now)
	if used == 0 {
		var err error
		if end, err = in.Options.Window.EndAt(now); err != nil {
			return Count{}, err
		}
	}
	next := State{Deadline: end, First: uint64(used + min(in.Cost, MaxCount-used))}
	return r.answer(Count{Next: next, Words: 1}, &in, d)
}

// countLog keeps the newest units.
func countLog(r *Rule, in Input, d *Decision) (c Count, err error) {
	b, at := logRing(in.List), Clamp(in.Now)
	expired, used := b.live(at, r.Period)
	newest, live := b.newest(expired, 0)
	most := r.most(in.Options.Debt)
	cost := min(in.Cost, most)
	if cost == 0 {
		return Count{}, nil
	}
	c.Forfeits = used+in.Cost > most
	left := live - b.oldest(expired, used+cost-most)
	if live == 0 || newest < at {
		newest = max(newest, at)
		left++
	}
	if left > in.MaxEntries {
		return c, ErrLogFull
	}
	c.Units, c.Write = cost, true
	c.Words, c.Next.Deadline = logHeader+2*b.room(expired, left, in.MaxEntries), newest+r.Period

	after := min(used+cost, most)
	says := Decision{OK: d.OK, Limit: r.Burst, Remaining: max(r.Burst-after, 0), ResetAfter: newest + r.Period - at}
	switch room := most - in.Cost; {
	case room < 0:
		says.RetryAfter = Never
	case after <= room:
	case room >= cost: // this charge may stay
		says.RetryAfter = r.logRetry(b, at, expired, used, room-cost)
	default:
		says.RetryAfter = newest + r.Period - at
	}
	*d = says
	return c, nil
}

// oldest returns how many pairs, after the expired ones, are removed entirely if so many
// of the oldest units are removed.
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

// logCount charges cost units at now, even if they do not fit. It keeps the newest units,
// up to the limit and its debt. buf must have the room that countLog returned.
func (r *Rule) logCount(buf []byte, now, cost, debt int64) {
	b, most := logRing(buf), r.most(debt)
	b.drop(Clamp(now), r.Period)
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
