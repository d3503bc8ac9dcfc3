package limits

import (
	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/policy"
	"github.com/headgate-io/headgate/server/command"
	"github.com/headgate-io/headgate/server/limits/wire"
)

// PolicyLeases has the forms of RL.LEASE and RL.RETURN that name a policy instead of a key
// and a limit. args are the arguments after the word POLICY.
type PolicyLeases interface {
	Lease(call *command.Call, args [][]byte)
	GiveBack(call *command.Call, args [][]byte)
	LeaseHeadless(args [][]byte) command.Headless
	LeaseHome(args [][]byte) (slot uint16, ok bool)
	// LeaseSecrets is command.Spec.Secrets; args[from] is the policy's name.
	LeaseSecrets(args [][]byte, from int, at []int) []int
}

// ofPolicy reports whether the arguments of a command are of the form with a policy.
func ofPolicy(args [][]byte) bool { return len(args) > 2 && command.EqualFold(args[1], "policy") }

// leasedKeys returns the position of the key, none of the form with a policy.
func leasedKeys(args [][]byte, at []int) []int {
	if len(args) > 1 && !ofPolicy(args) {
		at = append(at, 1)
	}
	return at
}

// leaseCommands returns the commands by which callers decide for themselves.
func leaseCommands(policies PolicyLeases) []command.Spec {
	key := command.Keys{First: 1, Last: 1, Step: 1, Find: leasedKeys}
	const flags = command.Write | command.Fast | command.NoScript | command.NoMulti
	secrets := func(args [][]byte, at []int) []int {
		if ofPolicy(args) {
			at = policies.LeaseSecrets(args, 2, at)
		}
		return at
	}
	home := func(args [][]byte) (slot uint16, ok bool) {
		if ofPolicy(args) {
			return policies.LeaseHome(args[2:])
		}
		return 0, false
	}
	return []command.Spec{{
		Name: "rl.lease", Arity: -9, Flags: flags | command.DenyOOM | command.Limit, Keys: key, Home: home, Categories: command.CatLimiter, Secrets: secrets,
		Group: "limiter", Complexity: "O(1); O(N) for the first request of a holder, N the number of holders of the key (at most 1024); of a policy for each limit",
		Summary: "Takes units of a limit, to spend them without asking, or renews a lease.",
		Syntax: "<key limit period | POLICY name [attribute value ...]> ID id SEQ number WANT units [HELD units] [NEED units] [TTL duration] " +
			"[ALGORITHM <token | leaky | fixed | sliding | log>] [BURST units] [ALIGN <epoch | first>] [SYNC | ASYNC] [FAIL <OPEN | CLOSED | LOCAL>]",
		Handler: func(call *command.Call) {
			if ofPolicy(call.Args) {
				policies.Lease(call, call.Args[2:])
			} else {
				lease(call)
			}
		},
		Headless: func(args [][]byte) command.Headless {
			if ofPolicy(args) {
				return policies.LeaseHeadless(args[2:])
			}
			return leaseHeadless(args)
		},
	}, {
		Name: "rl.return", Arity: -8, Flags: flags, Keys: key, Home: home, Categories: command.CatLimiter, Secrets: secrets,
		Group: "limiter", Complexity: "O(1); of a policy O(N), N the number of its limits",
		Summary: "Ends a lease and gives back what is left of it.",
		Syntax:  "<key | POLICY name [attribute value ...]> ID id SEQ number HELD units",
		Handler: func(call *command.Call) {
			if ofPolicy(call.Args) {
				policies.GiveBack(call, call.Args[2:])
			} else {
				giveBack(call)
			}
		},
	}}
}

// leaseParser parses an RL.LEASE of a key.
type leaseParser struct {
	lease engine.Lease
	sync  command.SyncMode
	fail  policy.Failure
}

// parse reads the arguments of RL.LEASE, without the command's name. The limit is written
// as in RL.LIMIT, so it is read into a chain, of which parse keeps nothing.
func (p *leaseParser) parse(args [][]byte, chain *command.Chain) (err error) {
	defer chain.Forget()
	limit := limitParser{chain: chain}
	l := wire.NewLeaseArgs()
	said := args[:3:3]
	for rest := args[3:]; len(rest) > 0; {
		n := 2
		switch is, err := l.Option(rest); {
		case err != nil:
			return err
		case is:
		case command.EqualFold(rest[0], "sync"), command.EqualFold(rest[0], "async"):
			said, n = append(said, rest[0]), 1
		case len(rest) < 2:
			return command.ErrSyntax
		case command.EqualFold(rest[0], "algorithm"), command.EqualFold(rest[0], "burst"), command.EqualFold(rest[0], "align"), command.EqualFold(rest[0], "fail"):
			said = append(said, rest[0], rest[1])
		default:
			return wire.UnknownOption(rest[0])
		}
		rest = rest[n:]
	}
	if err := l.Lends(); err != nil {
		return err
	}
	if err := limit.parse(said); err != nil {
		return err
	}
	p.lease = engine.Lease{Key: chain.Segs[0].Key, Limit: chain.Segs[0].Limit, ID: l.ID, Request: l.Request}
	p.sync, p.fail = limit.sync, limit.fail
	return nil
}

// leaseHeadless returns how an RL.LEASE is answered without a leader: as a call of Need.
func leaseHeadless(args [][]byte) command.Headless {
	var p leaseParser
	var chain command.Chain
	if p.parse(args[1:], &chain) != nil {
		return command.Headless{Prompt: true} // the handler replies the error
	}
	return command.Headless{Failure: p.fail, Prompt: p.sync != command.SyncCommit}
}

// lease takes or renews a lease of a key.
func lease(call *command.Call) {
	var p leaseParser
	if err := p.parse(call.Args[1:], &call.Chain); err != nil {
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
	wire.WriteLease(call, &a)
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

// giveBack replies the units that went back to the limit of a key.
func giveBack(call *command.Call) {
	l := wire.NewLeaseArgs()
	for rest := call.Args[2:]; len(rest) > 0; rest = rest[2:] {
		is, err := l.Option(rest)
		if err == nil && (!is || !wire.OfReturn(rest[0])) {
			err = wire.UnknownOption(rest[0])
		}
		if err != nil {
			call.Error(err.Error())
			return
		}
	}
	if err := l.Returns(); err != nil {
		call.Error(err.Error())
		return
	}
	units, err := call.Sess.Leases().Return(call.Now, call.Args[1], l.ID, l.Seq, l.Held)
	if err != nil {
		call.Fail(err)
		return
	}
	call.W.Int(units)
}
