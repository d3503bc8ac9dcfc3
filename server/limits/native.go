package limits

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/policy"
	"github.com/headgate-io/headgate/server/command"
	"github.com/headgate-io/headgate/server/limits/wire"
)

// nativeCommands returns Headgate's own commands of limits.
func nativeCommands() []command.Spec {
	return []command.Spec{{
		// Redis would add movablekeys, for the keys of a chain. With it, redis-py calls
		// COMMAND GETKEYS before every call, always on one node, even a dead one, and
		// refuses keys of different slots. All slots are in one shard, so the first key
		// is enough.
		Name: "rl.limit", Arity: -4, Flags: command.Write | command.DenyOOM | command.Fast | command.Limit,
		Keys: command.Keys{First: 1, Last: 1, Step: 1, Find: limitKeys}, Categories: command.CatLimiter,
		Group: "limiter", Complexity: "O(N), N the number of limits",
		Summary: "Checks one limit, or several as one atomic step, and charges them if all pass.",
		Syntax: "key limit period [ALGORITHM <token | leaky | fixed | sliding | log>] [BURST units] [ALIGN <epoch | first>] [COST units] " +
			"[PEEK | FORCE | ATMOST] [WAIT milliseconds] [DEBT units] [SYNC | ASYNC] [FAIL <OPEN | CLOSED | LOCAL>] [AND key limit period [options ...]]",
		Handler: limit, Headless: limitHeadless,
	}}
}

// limitKeys finds the keys of a chain: the first argument, and the one after each AND.
func limitKeys(args [][]byte, at []int) []int {
	at = append(at, 1)
	for i := 4; i < len(args); i++ {
		if command.EqualFold(args[i], "and") && i+1 < len(args) {
			at = append(at, i+1)
			i += 3
		}
	}
	return at
}

func limit(call *command.Call) {
	chain := &call.Chain
	defer chain.Forget()
	p := limitParser{chain: chain}
	if err := p.parse(call.Args[1:]); err != nil {
		call.Error(err.Error())
		return
	}
	n := len(chain.Segs)
	binding := 0
	var err error
	if n == 1 {
		seg := &chain.Segs[0]
		chain.Out[0], err = call.Limits.Decide(call.Now, seg.Key, seg.Limit, seg.Cost, &chain.Opts)
	} else {
		binding, err = call.Limits.DecideAll(call.Now, chain.Segs, &chain.Opts, chain.Out[:])
	}
	if err != nil {
		call.Fail(err)
		return
	}
	d := &chain.Out[binding]
	call.Decided(d.OK)
	call.Sync = p.sync
	fields, delay := wire.DecisionFields, d.Delay
	if n > 1 {
		fields++
		if d.OK {
			delay = longestDelay(chain.Out[:n])
		}
	}
	wire.OpenDecision(call, fields)
	wire.WriteDecision(call.W, d, delay, chain.Opts.AtMost)
	if n > 1 {
		wire.Field(call.W, "limits")
		call.W.Array(n)
		for i := range n {
			wire.OpenFields(call.W, wire.DecisionFields)
			wire.WriteDecision(call.W, &chain.Out[i], chain.Out[i].Delay, chain.Opts.AtMost)
		}
	}
	wire.CloseDecision(call)
}

// longestDelay returns the longest delay of a chain's limits.
func longestDelay(limits []algo.Decision) (ns int64) {
	for i := range limits {
		ns = max(ns, limits[i].Delay)
	}
	return ns
}

// Errors of options that contradict each other.
var (
	errExclusive = errors.New("ERR PEEK, FORCE and ATMOST exclude each other")

	errAtMostCost = errors.New("ERR ATMOST needs a COST of at least 1")
	errNoLimit    = errors.New("ERR a call needs at least one limit")
	errRounding   = errors.New("ERR a limit of RL.LIMIT cannot be rounded: its Rounding must be Exact")
	errBurst      = errors.New("ERR BURST must be at least 1")
)

// limitParser parses an RL.LIMIT into a chain.
type limitParser struct {
	chain *command.Chain
	sync  command.SyncMode
	fail  policy.Failure
}

// parse reads the arguments of RL.LIMIT, without the command's name, into the
// chain, reusing its segments.
//
//	key limit period [ALGORITHM a] [BURST n] [ALIGN epoch|first] [COST n]
//	[PEEK|FORCE|ATMOST] [WAIT ms] [DEBT n] [SYNC|ASYNC] [FAIL open|closed|local]
//	[AND key limit period …]
func (p *limitParser) parse(args [][]byte) error {
	p.chain.Segs = p.chain.Segs[:0]
	p.chain.Opts = algo.Options{}
	for {
		if len(args) < 3 {
			return command.ErrSyntax
		}
		rest, err := p.parseSegment(args)
		if err != nil {
			return err
		}
		if len(rest) == 0 {
			return p.check()
		}
		args = rest[1:] // after an AND
	}
}

// limitHeadless returns how an RL.LIMIT is answered without a leader.
func limitHeadless(args [][]byte) command.Headless {
	h := command.Headless{Prompt: true}
	if !wire.SaysHeadless(args[2:]) {
		return h
	}
	var chain command.Chain
	p := limitParser{chain: &chain}
	if p.parse(args[1:]) != nil {
		return h // the handler replies the error
	}
	gives := func(seg engine.Segment) bool { return seg.Cost < 0 }
	return command.Headless{Failure: p.fail, Prompt: p.sync != command.SyncCommit && !chain.Opts.Force && !slices.ContainsFunc(chain.Segs, gives)}
}

// check refuses combinations that contradict each other.
func (p *limitParser) check() error {
	o := &p.chain.Opts
	return checkOptions(p.chain.Segs, o)
}

// Check refuses limits and options that RL.LIMIT cannot express, or that contradict each
// other. Errors begin with their code.
func Check(segs []engine.Segment, o *algo.Options) error {
	switch {
	case len(segs) == 0:
		return errNoLimit
	case len(segs) > engine.MaxSegments:
		return command.EngineError(engine.ErrTooManySegments)
	}
	for i := range segs {
		switch l := &segs[i].Limit; {
		case l.Rounding != algo.Exact:
			return errRounding
		case l.Burst < 0:
			return errBurst
		}
	}
	return checkOptions(segs, o)
}

func checkOptions(segs []engine.Segment, o *algo.Options) error {
	if o.Peek && o.Force || o.Peek && o.AtMost || o.Force && o.AtMost {
		return errExclusive
	}
	if o.AtMost && slices.ContainsFunc(segs, func(s engine.Segment) bool { return s.Cost < 1 }) {
		return errAtMostCost
	}
	return nil
}

// parseSegment reads one key with its limit and the options up to AND or the
// end.
func (p *limitParser) parseSegment(args [][]byte) (rest [][]byte, err error) {
	if len(p.chain.Segs) == engine.MaxSegments {
		return nil, command.EngineError(engine.ErrTooManySegments)
	}
	seg := engine.Segment{Key: args[0], Cost: 1}
	if seg.Limit.Limit, err = wire.ParseInteger(args[1]); err != nil {
		return nil, err
	}
	if seg.Limit.Period, err = wire.ParsePeriod(args[2]); err != nil {
		return nil, err
	}
	args = args[3:]
	for len(args) > 0 && !command.EqualFold(args[0], "and") {
		n, err := p.parseOption(&seg, args)
		if err != nil {
			return nil, err
		}
		args = args[n:]
	}
	p.chain.Segs = append(p.chain.Segs, seg)
	return args, nil
}

// parseOption reads one option and returns how many arguments it took.
func (p *limitParser) parseOption(seg *engine.Segment, args [][]byte) (int, error) {
	o := &p.chain.Opts
	switch name := args[0]; {
	case command.EqualFold(name, "peek"):
		o.Peek = true
		return 1, nil
	case command.EqualFold(name, "force"):
		o.Force = true
		return 1, nil
	case command.EqualFold(name, "atmost"):
		o.AtMost = true
		return 1, nil
	case command.EqualFold(name, "sync"):
		return 1, wire.SetSync(&p.sync, command.SyncCommit)
	case command.EqualFold(name, "async"):
		return 1, wire.SetSync(&p.sync, command.SyncNone)
	}
	if len(args) < 2 {
		return 0, command.ErrSyntax
	}
	var err error
	switch name, value := args[0], args[1]; {
	case command.EqualFold(name, "cost"):
		seg.Cost, err = wire.ParseInteger(value)
	case command.EqualFold(name, "burst"):
		seg.Limit.Burst, err = wire.ParseInteger(value)
		if err == nil && seg.Limit.Burst < 1 {
			err = errBurst
		}
	case command.EqualFold(name, "algorithm"):
		a, ok := algo.ParseAlgorithm(string(value))
		if !ok {
			return 0, fmt.Errorf("ERR unknown algorithm '%s', use token, leaky, fixed, sliding or log", command.Clip(value, command.ErrorClip))
		}
		seg.Limit.Algorithm = a
	case command.EqualFold(name, "align"):
		switch {
		case command.EqualFold(value, "first"):
			seg.Limit.Align = algo.First
		case command.EqualFold(value, "epoch"):
			seg.Limit.Align = algo.Epoch
		default:
			return 0, fmt.Errorf("ERR unknown alignment '%s', use epoch or first", command.Clip(value, command.ErrorClip))
		}
	case command.EqualFold(name, "wait"):
		var ms int64
		if ms, err = wire.ParseInteger(value); err == nil && (ms < 0 || ms > math.MaxInt64/int64(time.Millisecond)) {
			err = errors.New("ERR WAIT must be a number of milliseconds, 0 or more")
		}
		if o.Wait = ms * int64(time.Millisecond); ms == 0 {
			o.Wait = algo.NoWait
		}
	case command.EqualFold(name, "debt"):
		if o.Debt, err = wire.ParseInteger(value); err == nil && o.Debt < 0 {
			err = errors.New("ERR DEBT must be 0 or more")
		}
	case command.EqualFold(name, "fail"):
		p.fail, err = wire.ParseFailure(value)
	default:
		return 0, fmt.Errorf("ERR syntax error, unknown option '%s'", command.Clip(name, command.ErrorClip))
	}
	return 2, err
}
