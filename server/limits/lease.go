package limits

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/policy"
	"github.com/headgate-io/headgate/server/command"
	"github.com/headgate-io/headgate/server/limits/wire"
)

// leaseTTL is the time to live of a lease that names none, in ns.
const leaseTTL = 2_000_000_000

// leaseCommands returns the commands by which callers decide for themselves.
func leaseCommands() []command.Spec {
	key := command.Keys{First: 1, Last: 1, Step: 1}
	const flags = command.Write | command.Fast | command.NoScript | command.NoMulti
	return []command.Spec{{
		Name: "rl.lease", Arity: -10, Flags: flags | command.DenyOOM | command.Limit, Keys: key, Categories: command.CatLimiter,
		Group: "limiter", Complexity: "O(1); O(N) for the first request of a holder, N the number of holders of the key (at most 1024)",
		Summary: "Takes units of a limit, to spend them without asking, or renews a lease.",
		Syntax: "key limit period ID id SEQ number WANT units [HELD units] [NEED units] [TTL duration] " +
			"[ALGORITHM <token | leaky | fixed | sliding | log>] [BURST units] [ALIGN <epoch | first>] [SYNC | ASYNC] [FAIL <OPEN | CLOSED | LOCAL>]",
		Handler: lease, Headless: leaseHeadless,
	}, {
		Name: "rl.return", Arity: 8, Flags: flags, Keys: key, Categories: command.CatLimiter,
		Group: "limiter", Complexity: "O(1)",
		Summary: "Ends a lease and gives back what is left of it.",
		Syntax:  "key ID id SEQ number HELD units",
		Handler: giveBack,
	}}
}

// Errors of the arguments of leases.
var (
	errLeaseNeeds = errors.New("ERR RL.LEASE needs ID, SEQ and WANT")
	errSeq        = errors.New("ERR SEQ must be an integer from 1 to 18446744073709551615")
	errUnits      = errors.New("ERR WANT, HELD and NEED must be integers, 0 or more")
	errReturn     = errors.New("ERR RL.RETURN needs ID, SEQ and HELD")
)

// leaseParser parses an RL.LEASE.
type leaseParser struct {
	lease  engine.Lease
	sync   command.SyncMode
	fail   policy.Failure
	wanted bool
}

// parse reads the arguments of RL.LEASE, without the command's name.
func (p *leaseParser) parse(args [][]byte) (err error) {
	// What says the limit is as in RL.LIMIT.
	chain := command.Chain{Segs: make([]engine.Segment, 0, 1)}
	limit := limitParser{chain: &chain}
	l := &p.lease
	l.Need, l.TTL = 1, leaseTTL
	said := args[:3:3]
	for rest := args[3:]; len(rest) > 0; {
		n := 2
		switch name := rest[0]; {
		case command.EqualFold(name, "sync"), command.EqualFold(name, "async"):
			said, n = append(said, name), 1
		case len(rest) < 2:
			return command.ErrSyntax
		case command.EqualFold(name, "id"):
			l.ID = rest[1]
		case command.EqualFold(name, "seq"):
			l.Seq, err = parseSeq(rest[1])
		case command.EqualFold(name, "want"):
			p.wanted = true
			l.Want, err = parseUnits(rest[1])
		case command.EqualFold(name, "held"):
			l.Held, err = parseUnits(rest[1])
		case command.EqualFold(name, "need"):
			l.Need, err = parseUnits(rest[1])
		case command.EqualFold(name, "ttl"):
			l.TTL, err = wire.ParsePeriod(rest[1])
		case command.EqualFold(name, "algorithm"), command.EqualFold(name, "burst"), command.EqualFold(name, "align"), command.EqualFold(name, "fail"):
			said = append(said, name, rest[1])
		default:
			return fmt.Errorf("ERR syntax error, unknown option '%s'", command.Clip(name, command.ErrorClip))
		}
		if err != nil {
			return err
		}
		rest = rest[n:]
	}
	if len(l.ID) == 0 || l.Seq == 0 || !p.wanted {
		return errLeaseNeeds
	}
	if err := limit.parse(said); err != nil {
		return err
	}
	l.Key, l.Limit, p.sync, p.fail = chain.Segs[0].Key, chain.Segs[0].Limit, limit.sync, limit.fail
	return nil
}

func parseSeq(b []byte) (uint64, error) {
	n, err := strconv.ParseUint(string(b), 10, 64)
	if err != nil || n == 0 {
		return 0, errSeq
	}
	return n, nil
}

func parseUnits(b []byte) (int64, error) {
	n, err := wire.ParseInteger(b)
	if err != nil || n < 0 {
		return 0, errUnits
	}
	return n, nil
}

// leaseHeadless returns how an RL.LEASE is answered without a leader: as a call of Need.
func leaseHeadless(args [][]byte) command.Headless {
	var p leaseParser
	if p.parse(args[1:]) != nil {
		return command.Headless{Prompt: true} // the handler replies the error
	}
	return command.Headless{Failure: p.fail, Prompt: p.sync != command.SyncCommit}
}

// leaseFields is the number of fields of RL.LEASE's reply.
const leaseFields = wire.DecisionFields + 5

// lease replies the values of RL.LIMIT for NEED, then granted, ttl_ms, refill, refill_ms
// and holders.
func lease(call *command.Call) {
	var p leaseParser
	if err := p.parse(call.Args[1:]); err != nil {
		call.Error(err.Error())
		return
	}
	a, err := leased(call, &p.lease)
	if err != nil {
		call.Fail(err)
		return
	}
	call.Decided(a.OK)
	call.Sync = p.sync
	wire.OpenDecision(call, leaseFields)
	wire.WriteDecision(call.W, &a.Decision, a.Delay, false)
	wire.IntField(call.W, "granted", a.Granted)
	// A holder's time is never longer than the server's, and its refill never faster.
	wire.IntField(call.W, "ttl_ms", a.TTL/1e6)
	wire.IntField(call.W, "refill", a.Refill)
	wire.IntField(call.W, "refill_ms", command.CeilMillis(a.RefillTime))
	wire.IntField(call.W, "holders", a.Holders)
	wire.CloseDecision(call)
}

// leased decides a request. Without a leader there are no leases: the failure policy
// decides what callers wait for.
func leased(call *command.Call, l *engine.Lease) (a engine.Leased, err error) {
	if !call.Degraded {
		return call.Sess.Leases().Take(call.Now, l)
	}
	a.Decision, err = call.Limits.Decide(call.Now, l.Key, l.Limit, l.Need, &algo.Options{})
	a.Granted = a.Allowed
	return a, err
}

// giveBack replies the units that went back to the limit.
func giveBack(call *command.Call) {
	var id []byte
	var seq uint64
	held := int64(-1)
	for rest := call.Args[2:]; len(rest) > 0; rest = rest[2:] {
		var err error
		switch name := rest[0]; {
		case command.EqualFold(name, "id"):
			id = rest[1]
		case command.EqualFold(name, "seq"):
			seq, err = parseSeq(rest[1])
		case command.EqualFold(name, "held"):
			held, err = parseUnits(rest[1])
		default:
			err = fmt.Errorf("ERR syntax error, unknown option '%s'", command.Clip(name, command.ErrorClip))
		}
		if err != nil {
			call.Error(err.Error())
			return
		}
	}
	if len(id) == 0 || seq == 0 || held < 0 {
		call.Error(errReturn.Error())
		return
	}
	units, err := call.Sess.Leases().Return(call.Now, call.Args[1], id, seq, held)
	if err != nil {
		call.Fail(err)
		return
	}
	call.W.Int(units)
}
