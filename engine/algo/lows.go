package algo

// # Lows of a bucket
//
// A refund from a bucket gives back at most the least that was used at any time since the
// charge. If the bucket has been emptied below that, time has already given back the
// rest. Use only falls between charges. So its low points are those just before a charge,
// and the present.
//
// The record of a marked bucket keeps the lows that still matter. Each has the use, and
// how many reservations had been charged before. It is a stack. A new low removes those
// that are not lower: their reservations were charged before the new one too. So both
// numbers increase along the stack, and a reservation's low is the first one after it, or
// the present.
//
// A refund lowers the lows after its charge, and no others. The record is then the one
// that the same charges leave with the settled cost in place of the held one. So the
// order of settlements does not matter.
//
// There are at most maxLows. Beyond that, two neighbours are joined, and the lower use is
// kept. It is the pair whose first use is nearest to the use of the low after the pair.
// So a refund may be less than it could be, but is never more.

const (
	// maxLows bounds the lows of a record. One join costs a reservation at most
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

// lowNote is how a charge changes the lows of a record.
type lowNote struct {
	keep int  // how many stay
	push bool // used becomes a low
	used Span // before the charge
}

// noteLow plans that used becomes a low, if the bucket was held before.
func noteLow(record []byte, held uint32, used Span) lowNote {
	n := lowsOf(record)
	for n > 0 && !readLow(record, n-1).used.less(used) {
		n--
	}
	return lowNote{keep: n, push: n == 0 || readLow(record, n-1).held != held, used: used}
}

// lows returns how many lows there are after the note.
func (t *lowNote) lows() int {
	if t.push {
		return min(t.keep+1, maxLows)
	}
	return t.keep
}

// forget is for a record that is gone with its lows: earlier charges cannot be given
// back.
func (t *lowNote) forget() {
	if t.keep > 0 {
		*t = lowNote{push: true}
	}
}

// write writes the note to a record that has room for it; held is as in noteLow.
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

// joinLows joins two neighbours of maxLows lows, before next is added.
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

// lowSince returns the least use since reservation number n, up to now, when it is used.
// at is the place of the first low after that reservation.
func lowSince(record []byte, n uint32, used Span) (least Span, at int) {
	lows := lowsOf(record)
	for at < lows && readLow(record, at).held < n {
		at++
	}
	if at < lows {
		used = shorter(used, readLow(record, at).used)
	}
	return used, at
}

// lowerLows subtracts given from the lows from place at on.
func lowerLows(record []byte, at int, given Span) {
	lows, to := lowsOf(record), at
	for i := at; i < lows; i++ {
		l := readLow(record, i)
		l.used = l.used.sub(given)
		for i == at && to > 0 && !readLow(record, to-1).used.less(l.used) { // it matters no more
			to--
		}
		l.write(record, to)
		to++
	}
	if at < lows {
		clearLows(record, to)
	}
}
