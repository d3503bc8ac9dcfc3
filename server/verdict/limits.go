package verdict

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/policy"
	"github.com/headgate-io/headgate/server/command"
)

// Asked is a limit that a call brings along, in the form of RL.LIMIT.
type Asked struct {
	Key string
	// Limit is the number of units per Period. Period is a duration such as 1m, or a number
	// of seconds.
	Limit     int64
	Period    string
	Algorithm string // "" means token
	Align     string // "" means epoch
	// Burst is the capacity of a bucket, if HasBurst is set. Cost is 1 unless HasCost is
	// set.
	Burst    int64
	HasBurst bool
	Cost     int64
	HasCost  bool
}

// LimitCall is an RL.LIMIT without ATMOST.
type LimitCall struct {
	Limits      []Asked
	Peek, Force bool
	// Wait, in ms, counts if HasWait is set. Debt, in units, counts if HasDebt is set.
	Wait, Debt       int64
	HasWait, HasDebt bool
	Sync             Sync
	Fail             string // as in a Call
}

// Errors of AppendLimit, for mistakes that RL.LIMIT could not name. The command reads its
// arguments by position: without limits, it would take the first option for a key. A
// missing key or period would be an empty argument.
var (
	errNoLimits   = errors.New("limits is empty")
	errNoKey      = errors.New("key is missing")
	errNoPeriod   = errors.New("period is missing")
	errManyLimits = fmt.Errorf("at most %d limits in a call", engine.MaxSegments)
)

// AppendLimit appends the call as RL.LIMIT to a pipeline of commands. The command finds all
// other errors.
func (c *LimitCall) AppendLimit(dst []byte) ([]byte, error) {
	if len(c.Limits) == 0 {
		return dst, errNoLimits
	}
	if len(c.Limits) > engine.MaxSegments {
		return dst, errManyLimits
	}
	n := len(c.Limits) // RL.LIMIT, and an AND before each but the first
	for i := range c.Limits {
		l := &c.Limits[i]
		switch {
		case l.Key == "":
			return dst, errNoKey
		case l.Period == "":
			return dst, errNoPeriod
		}
		n += 3
		for _, option := range [...]bool{l.Algorithm != "", l.Align != "", l.HasBurst, l.HasCost} {
			if option {
				n += 2
			}
		}
	}
	for _, option := range [...]bool{c.HasWait, c.HasDebt, c.Fail != ""} {
		if option {
			n += 2
		}
	}
	for _, option := range [...]bool{c.Peek, c.Force, c.Sync != SyncPolicy} {
		if option {
			n++
		}
	}
	dst = appendHeader(dst, '*', n)
	for i := range c.Limits {
		word := "AND"
		if i == 0 {
			word = "RL.LIMIT"
		}
		dst = c.Limits[i].append(appendArgument(dst, word))
	}
	if c.Peek {
		dst = appendArgument(dst, "PEEK")
	}
	if c.Force {
		dst = appendArgument(dst, "FORCE")
	}
	if c.HasWait {
		dst = appendInt(appendArgument(dst, "WAIT"), c.Wait)
	}
	if c.HasDebt {
		dst = appendInt(appendArgument(dst, "DEBT"), c.Debt)
	}
	switch c.Sync {
	case SyncCommit:
		dst = appendArgument(dst, "SYNC")
	case SyncNone:
		dst = appendArgument(dst, "ASYNC")
	}
	if c.Fail != "" {
		dst = appendArgument(appendArgument(dst, "FAIL"), c.Fail)
	}
	return dst, nil
}

// append appends the arguments of one limit.
func (l *Asked) append(dst []byte) []byte {
	dst = appendArgument(appendInt(appendArgument(dst, l.Key), l.Limit), l.Period)
	if l.Algorithm != "" {
		dst = appendArgument(appendArgument(dst, "ALGORITHM"), l.Algorithm)
	}
	if l.Align != "" {
		dst = appendArgument(appendArgument(dst, "ALIGN"), l.Align)
	}
	if l.HasBurst {
		dst = appendInt(appendArgument(dst, "BURST"), l.Burst)
	}
	if l.HasCost {
		dst = appendInt(appendArgument(dst, "COST"), l.Cost)
	}
	return dst
}

// window returns the time, in ms, in which the limit admits its whole capacity; 0 if
// unknown.
func (l *Asked) window() int64 {
	period, err := policy.ParseDuration(l.Period)
	if seconds, notNumber := strconv.ParseInt(l.Period, 10, 32); notNumber == nil {
		period, err = seconds*int64(time.Second), nil
	}
	algorithm, ok := algo.Token, true
	if l.Algorithm != "" {
		algorithm, ok = algo.ParseAlgorithm(l.Algorithm)
	}
	if err != nil || !ok || l.Limit <= 0 {
		return 0
	}
	return command.CeilMillis(algo.Limit{Algorithm: algorithm, Limit: l.Limit, Period: period, Burst: l.Burst}.Window())
}

// places are the names of limits that have no name: their positions in the call.
var places = func() (names [engine.MaxSegments][]byte) {
	for i := range names {
		names[i] = strconv.AppendInt(nil, int64(i+1), 10)
	}
	return names
}()

var (
	modeEnforce = []byte("enforce")
	reasonOK    = []byte("ok")
	reasonLimit = []byte("limit")
)

// ReadLimits does the same as Read for the reply to a LimitCall. It names the limits by
// their positions in the call, from 1.
func (v *Verdict) ReadLimits(replies []byte, c *LimitCall) (rest []byte, err error) {
	if rest, err = v.Read(replies); err != nil {
		return rest, err
	}
	if len(v.Limits) == 0 {
		v.Limits = append(v.Limits, Limit{Decision: v.Decision})
	}
	v.Applied = int64(len(v.Limits))
	v.Reason = reasonOK
	if !v.Allowed {
		v.Reason = reasonLimit
	}
	for i := range v.Limits[:min(len(v.Limits), len(c.Limits))] {
		l := &v.Limits[i]
		l.Name, l.Mode, l.Cost, l.Status, l.Window = places[i], modeEnforce, 1, 200, c.Limits[i].window()
		if c.Limits[i].HasCost {
			l.Cost = c.Limits[i].Cost
		}
		if !l.Allowed {
			if l.Status = 429; l.RetryAfter < 0 {
				l.Status = 403
			}
		}
		d := l.Decision
		if d.Delay = v.Delay; v.Name == nil && d == v.Decision { // in a chain the delay is the longest of its limits
			v.Name = l.Name
		}
	}
	return rest, nil
}
