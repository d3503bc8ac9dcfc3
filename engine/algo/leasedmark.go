package algo

// # Holds of a leased counter
//
// A refund gives back at most the lowest use since the charge: see lows.go. For a leased
// counter, this use does not include the units that are out. Also without the charge,
// the bucket would have at least these units in use, so time gives back only the use
// above them. So the lows of a leased counter are lows of the use above the units that
// are out.
//
// Between two charges, blocks may end. The use above the units that are out is then
// lowest just before such an end. So the peak is subtracted: the largest number of units
// that were out since the last low. A refund may therefore be smaller than necessary,
// but is never too large.

// Peak returns the largest number of units that have been out of a leased bucket since
// its last low, up to the time when its record was written.
func Peak(r *Rule, record []byte) int64 {
	if r.Decides != Token {
		return 0
	}
	return int64(word(record, 2))
}

// Above returns st, the state of a leased counter at now, less what was out of it since
// its last low.
func Above(r *Rule, record []byte, st State, now int64) State {
	if r.Decides != Token {
		return st
	}
	now = Clamp(now)
	return st.bucket().used(now).sub(filled(r, Peak(r, record))).after(now).stored()
}

// Refund is Rule.Refund for a leased counter, whose whole record is given.
func (o *Outstanding) Refund(r *Rule, c *Receipt, record []byte, now int64, excess Span) Refund {
	now = Clamp(now)
	st := o.Plain(r, record, now)
	f := r.Refund(c, Above(r, record, st, now), PlainPart(r, record), now, excess)
	if r.Decides == Token {
		f.Next, f.Words = st.bucket().used(now).sub(f.given).after(now).stored(), 1
	}
	return f
}

// Give is Rule.Give for a leased counter, whose whole record is given.
func (o *Outstanding) Give(r *Rule, f *Refund, m *Mark, record []byte, now int64) (deadline int64, left bool) {
	if f.Words == 0 && !o.Live(now) {
		return 0, false
	}
	deadline = max(o.Ends(r, now), o.Store(r, o.Floor(r, f.Next, now), record, Peak(r, record), now))
	plain := PlainPart(r, record)
	m.Put(r, plain)
	if r.Decides == Token {
		lowerLows(plain, f.place, f.given)
	}
	return deadline, true
}

// PlainPart returns the part of a leased counter's record that it has without leases too.
func PlainPart(r *Rule, record []byte) []byte { return record[8*LeasedHead(r):] }
