package data

import (
	"errors"
	"math"
	"strconv"

	"github.com/headgate-io/headgate/engine/packed"
	"github.com/headgate-io/headgate/resp"
	"github.com/headgate-io/headgate/server/command"
)

var (
	errCountRange    = errors.New("ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807")
	errCountTooLarge = errors.New("ERR value is out of range")
	errNotPositive   = errors.New("ERR value is out of range, must be positive")
	errManyRepeats   = errors.New("ERR at most " + strconv.Itoa(packed.MaxEntries) + " entries that may repeat in a reply")
	errLongReply     = errors.New("ERR the reply exceeds client-output-buffer-limit")
)

// sample holds the arguments of HRANDFIELD, SRANDMEMBER and ZRANDMEMBER: count different
// entries or, if repeats is set, count entries that may repeat.
type sample struct {
	count   int
	repeats bool
	pairs   bool // with values or scores
}

// parseSample reads [count [word]]. word asks for values or scores; word is "" if the
// command has no such option.
func parseSample(args [][]byte, word string) (s sample, err error) {
	n, err := parseCount(args[0])
	switch {
	case err != nil:
		return s, err
	case len(args) > 2, len(args) == 2 && (word == "" || !command.EqualFold(args[1], word)):
		return s, command.ErrSyntax
	}
	s.pairs = len(args) == 2
	if s.pairs && (n < -math.MaxInt64/2 || n > math.MaxInt64/2) {
		return s, errCountTooLarge
	}
	if n < -packed.MaxEntries {
		return s, errManyRepeats
	}
	s.repeats = n < 0
	s.count = int(max(n, -n))
	return s, nil
}

// parseCount reads a count that may be negative.
func parseCount(b []byte) (int64, error) {
	n, err := parseInt(b)
	if err == nil && n == math.MinInt64 {
		err = errCountRange
	}
	return n, err
}

// parsePositive reads a number of at least 0.
func parsePositive(b []byte) (int64, error) {
	n, err := parseInt(b)
	if err != nil || n < 0 {
		return 0, errNotPositive
	}
	return n, nil
}

// header begins a reply of n entries.
func (s *sample) header(w *resp.Writer, n int) {
	if s.pairs && !w.RESP3 {
		n *= 2
	}
	w.Array(n)
}

// entry begins an entry of the reply.
func (s *sample) entry(w *resp.Writer) {
	if s.pairs && w.RESP3 {
		w.Array(2)
	}
}

// repeat replies count random entries of r, which may repeat. write writes one entry.
// repeat replies an error if the reply becomes too long.
func (s *sample) repeat(call *command.Call, r *reading, write func(w *resp.Writer)) {
	w, most := call.W, call.Host.MostReply()
	start := len(w.B)
	s.header(w, s.count)
	for range s.count {
		s.entry(w)
		write(w)
		if call.LongReply(start) {
			r.close()
			call.Leave()
			return
		}
		if len(w.B)-start > most {
			w.B = w.B[:start]
			call.Error(errLongReply.Error())
			return
		}
	}
}
