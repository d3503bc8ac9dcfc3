package limits

import (
	"strconv"
	"time"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/server/command"
	"github.com/headgate-io/headgate/server/limits/wire"
)

// AppendLimit appends the RL.LIMIT of a chain of limits that has passed Check. A Wait is
// rounded up to whole milliseconds.
func AppendLimit(args [][]byte, segs []engine.Segment, o *algo.Options, sync command.SyncMode) [][]byte {
	word := func(words ...string) {
		for _, w := range words {
			args = append(args, []byte(w))
		}
	}
	number := func(name string, n int64) { word(name, strconv.FormatInt(n, 10)) }
	word("RL.LIMIT")
	for i, s := range segs {
		if i > 0 {
			word("AND")
		}
		args = append(args, s.Key)
		word(strconv.FormatInt(s.Limit.Limit, 10), wire.FormatPeriod(s.Limit.Period))
		if s.Limit.Algorithm != algo.Token {
			word("ALGORITHM", s.Limit.Algorithm.String())
		}
		if s.Limit.Burst > 0 {
			number("BURST", s.Limit.Burst)
		}
		if s.Limit.Align == algo.First {
			word("ALIGN", "first")
		}
		number("COST", s.Cost)
	}
	for _, f := range []struct {
		set  bool
		name string
	}{{o.Peek, "PEEK"}, {o.Force, "FORCE"}, {o.AtMost, "ATMOST"}, {sync == command.SyncCommit, "SYNC"}, {sync == command.SyncNone, "ASYNC"}} {
		if f.set {
			word(f.name)
		}
	}
	switch {
	case o.Wait == algo.NoWait:
		number("WAIT", 0)
	case o.Wait > 0:
		number("WAIT", command.CeilUnits(o.Wait, time.Millisecond))
	}
	if o.Debt > 0 {
		number("DEBT", o.Debt)
	}
	return args
}
