package checks

import (
	"bytes"
	"errors"
	"fmt"
	"math"

	"github.com/headgate-io/headgate/policy"
	"github.com/headgate-io/headgate/resp"
	"github.com/headgate-io/headgate/server/limits/wire"
)

// Errors of RL.DESCRIPTORS.
var (
	errHitsOfRequest  = fmt.Errorf("ERR hits of a request must be 0 to %d", uint32(math.MaxUint32))
	errHits           = errors.New("ERR hits of a descriptor must be - or a whole number")
	errNumDescriptors = fmt.Errorf("ERR a request must have 1 to %d descriptors", policy.MaxDescriptors)
	errNumEntries     = fmt.Errorf("ERR a descriptor has 1 to %d entries", policy.MaxEntries)
	errFewArguments   = errors.New("ERR syntax error, arguments of a descriptor are missing")
	errAskedLimit     = errors.New("ERR the limit of a descriptor must be -, requests/unit or requests/unit*multiplier, such as 10/minute")
)

// descriptorArgs are the parsed arguments of RL.DESCRIPTORS.
type descriptorArgs struct {
	hits  int64
	asked []policy.Asked
	// options are PEEK, SYNC, ASYNC and FAIL.
	options checkArgs
}

// parse reads what follows the command's name.
func (a *descriptorArgs) parse(args [][]byte) (err error) {
	a.asked, a.options = a.asked[:0], checkArgs{pairs: a.options.pairs[:0]}
	var n int64
	if a.hits, err = wire.ParseInteger(args[1]); err != nil || a.hits < 0 || a.hits > math.MaxUint32 {
		return errHitsOfRequest
	}
	if n, err = wire.ParseInteger(args[2]); err != nil || n < 1 || n > policy.MaxDescriptors {
		return errNumDescriptors
	}
	args = args[3:]
	for range n {
		if args, err = a.descriptor(args); err != nil {
			return err
		}
	}
	return a.options.onlyOptions(args)
}

// descriptor reads one descriptor and returns the remaining arguments.
func (a *descriptorArgs) descriptor(args [][]byte) (rest [][]byte, err error) {
	if len(args) == 0 {
		return nil, errFewArguments
	}
	n, err := wire.ParseInteger(args[0])
	if err != nil || n < 1 || n > policy.MaxEntries {
		return nil, errNumEntries
	}
	size := 1 + 2*int(n) + 2
	if len(args) < size {
		return nil, errFewArguments
	}
	d := policy.Asked{Entries: args[1 : size-2]}
	if hits := args[size-2]; !unset(hits) {
		if d.Hits, err = wire.ParseInteger(hits); err != nil {
			return nil, errHits
		}
		d.HasHits = true
	}
	if limit := args[size-1]; !unset(limit) {
		if d.Limit, err = parseAskedLimit(limit); err != nil {
			return nil, err
		}
	}
	if err := policy.CheckAsked(&d); err != nil {
		return nil, fmt.Errorf("ERR %w", err)
	}
	a.asked = append(a.asked, d)
	return args[size:], nil
}

// unset reports whether an argument is -, which means none.
func unset(b []byte) bool { return len(b) == 1 && b[0] == '-' }

// parseAskedLimit reads requests/unit or requests/unit*multiplier.
func parseAskedLimit(b []byte) (l policy.AskedLimit, err error) {
	requests, rest, _ := bytes.Cut(b, []byte("/")) // without /, the unit is missing
	unit, multiplier, multiplied := bytes.Cut(rest, []byte("*"))
	l.Multiplier = 1
	var ok bool
	if l.Requests, ok = resp.ParseInt(requests); !ok || l.Requests < 0 || l.Requests > math.MaxUint32 {
		return l, errAskedLimit
	}
	if multiplied {
		if l.Multiplier, ok = resp.ParseInt(multiplier); !ok || l.Multiplier < 1 || l.Multiplier > math.MaxUint32 {
			return l, errAskedLimit
		}
	}
	if l.Unit, ok = policy.ParseUnit(string(unit)); !ok {
		return l, errAskedLimit
	}
	return l, nil
}
