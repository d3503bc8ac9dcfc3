package ledger

// Rounds rings when replies wait for a round of heartbeats.
func (l *Ledger) Rounds() <-chan struct{} { return l.rounds }

// Round returns the last ticket that a round of heartbeats would verify if it began now; 0
// if no ticket waits for a round.
func (l *Ledger) Round() (upTo uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := len(l.clean); n > 0 && l.clean[n-1].ticket > l.verified {
		upTo = l.clean[n-1].ticket
	}
	return upTo
}

// Verified ends the round for which Round returned upTo. If the round failed, the tickets
// that waited for it are released with err.
func (l *Ledger) Verified(upTo uint64, err error) {
	l.mu.Lock()
	l.verified = max(l.verified, upTo)
	if err == nil {
		upTo = l.ready()
	} else {
		fails := uint64(0) // no ticket waits if the term has ended meanwhile
		for len(l.clean) > 0 && l.clean[0].ticket <= upTo {
			fails = l.clean[0].ticket
			l.clean = l.clean[1:]
		}
		upTo = fails
	}
	l.mu.Unlock()
	if upTo > 0 {
		l.hooks.Release(upTo, err)
	}
}

// Released reports whether no reply waits for the last cut's ticket or an earlier one.
func (l *Ledger) Released() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.flights) == 0 && len(l.clean) == 0
}

// ready removes the cuts that found no dirty keys and need not wait any longer. It returns
// the ticket of the last of them, or 0. The caller holds mu.
func (l *Ledger) ready() (upTo uint64) {
	for len(l.clean) > 0 && l.clean[0].ticket <= l.verified && l.clean[0].after <= l.committed {
		upTo = l.clean[0].ticket
		l.clean = l.clean[1:]
	}
	return upTo
}
