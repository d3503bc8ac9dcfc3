package algo

// # Lows of a bucket
//
// A refund gives back at most what the bucket still holds of the charge; time has given
// back the rest. So its bound is the lowest use since the charge. Use only falls between
// charges. So it is lowest just before one of the later charges, or now.
//
// The record of a marked bucket keeps these low points as a stack. A low has the use
// before a charge, and the number of reservations that had been charged by then. A new low
// first removes all lows that are not lower than it. So both numbers increase along the
// stack. The lowest use since a reservation is the use of the first low after it. If there
// is no such low, it is the present use.
//
// A refund lowers all lows after its charge by the same amount. The record is then as if
// the call had cost the settled amount from the start. So the order of settlements does
// not matter.
//
// A record has at most maxLows lows. If it is full, two neighbours are joined into one
// with the lower use of the two. Of all pairs, it is the pair from whose first low the
// use rises least to the low after the pair. A refund may then be smaller than possible,
// but never too large.

const (
	// maxLows bounds the lows of a record. A join costs a reservation at most
	// 2/(maxLows-1) of the use, a sixteenth.
	maxLows = 33
	// lowsAt is the word of the first low, and lowWords the size of each: ns, then
	// fraction | reservations before it << 32.
	lowsAt   = 2
	lowWords = 2
)

// low is a low point of a bucket.
type low struct {
	used Span
	held uint32 // reservations charged before it
}

func readLow(record []byte, i int) low {
	at := lowsAt + lowWords*i
	second := word(record, at+1)
	return low{Span{word(record, at), uint32(second)}, uint32(second >> 32)}
}

func (l low) write(record []byte, i int) {
	at := lowsAt + lowWords*i
	setWord(record, at, l.used.NS)
	setWord(record, at+1, uint64(l.used.Frac)|uint64(l.held)<<32)
}

// lowsOf returns how many lows a record has: the words after them are 0.
func lowsOf(record []byte) (n int) {
	for n < (len(record)/8-lowsAt)/lowWords && readLow(record, n).held > 0 {
		n++
	}
	return n
}

// clearLows clears the lows from n on.
func clearLows(record []byte, n int) {
	for i := lowsAt + lowWords*n; i < len(record)/8; i++ {
		setWord(record, i, 0)
	}
}

// lowNote is the change that a charge makes to the lows of a record.
type lowNote struct {
	keep int  // how many lows stay
	push bool // used becomes a new low
	used Span // use before the charge
}

// noteLow plans the change of a charge: used is the use before it, and held is how many
// reservations had been charged.
func noteLow(record []byte, held uint32, used Span) lowNote {
	n := lowsOf(record)
	for n > 0 && !readLow(record, n-1).used.less(used) {
		n--
	}
	return lowNote{keep: n, push: n == 0 || readLow(record, n-1).held != held, used: used}
}

// lows returns how many lows the record has after the change.
func (t *lowNote) lows() int {
	if t.push {
		return min(t.keep+1, maxLows)
	}
	return t.keep
}

// forget adapts the change to a record that has lost its lows: earlier charges cannot be
// refunded any more.
func (t *lowNote) forget() {
	if t.keep > 0 {
		*t = lowNote{push: true}
	}
}

// write makes the change in a record that has room for it; held is as in noteLow.
func (t *lowNote) write(record []byte, held uint32) {
	n := t.keep
	if t.push {
		if n == maxLows {
			joinLows(record, t.used)
			n--
		}
		low{t.used, held}.write(record, n)
		n++
	}
	clearLows(record, n)
}

// joinLows joins two neighbours of maxLows lows. next is the use of the low to be added.
func joinLows(record []byte, next Span) {
	at, least := 0, endless
	for i := range maxLows - 1 {
		after := next
		if i+2 < maxLows {
			after = readLow(record, i+2).used
		}
		if width := after.sub(readLow(record, i).used); width.less(least) {
			at, least = i, width
		}
	}
	joined := readLow(record, at)
	joined.held = readLow(record, at+1).held
	joined.write(record, at)
	for i := at + 1; i < maxLows-1; i++ {
		readLow(record, i+1).write(record, i)
	}
}

// lowSince returns the lowest use since reservation number n; used is the present use. index
// is that of the first low after that reservation.
func lowSince(record []byte, n uint32, used Span) (least Span, index int) {
	lows := lowsOf(record)
	for index < lows && readLow(record, index).held < n {
		index++
	}
	if index < lows {
		used = shorter(used, readLow(record, index).used)
	}
	return used, index
}

// lowerLows subtracts given from the lows from index at on.
func lowerLows(record []byte, at int, given Span) {
	lows, to := lowsOf(record), at
	for i := at; i < lows; i++ {
		l := readLow(record, i)
		l.used = l.used.sub(given)
		for i == at && to > 0 && !readLow(record, to-1).used.less(l.used) { // not below l any more
			to--
		}
		l.write(record, to)
		to++
	}
	if at < lows {
		clearLows(record, to)
	}
}
