package engine

// Integer returns the value of a counter that is stored as a number, because its text is
// the shortest form of an int64. ok is false for other texts and for an absent value.
func (v *Value) Integer() (n int64, ok bool) {
	if !v.integer {
		return 0, false
	}
	return int64(v.p.ent.Word(0)), true
}

// SetInteger is Set of a counter to n.
func (v *Value) SetInteger(n int64) error { return v.setInteger(n) }

// Add adds n to a counter and returns the sum: see Session.Incr. An absent counter is 0.
// Errors: ErrNotInteger, ErrIncrDecrOverflow, ErrFull; nothing has changed then.
func (v *Value) Add(n int64) (sum int64, err error) {
	if !v.p.live {
		return n, v.setInteger(n)
	}
	if !v.integer {
		return 0, ErrNotInteger
	}
	sum, fits := addInt64(int64(v.p.ent.Word(0)), n)
	if !fits {
		return 0, ErrIncrDecrOverflow
	}
	v.touch()
	v.p.ent.SetWord(0, uint64(sum))
	return sum, nil
}
