package limits

import (
	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/server/command"
	"github.com/headgate-io/headgate/server/limits/wire"
)

// slotsCommands returns the commands that bound how many calls run at once.
func slotsCommands() []command.Spec {
	key := command.Keys{First: 1, Last: 1, Step: 1}
	return []command.Spec{{
		Name: "rl.acquire", Arity: -4, Flags: command.Write | command.DenyOOM | command.Fast | command.Limit, Keys: key, Categories: command.CatLimiter,
		Group: "limiter", Complexity: "O(N), N the number of holders of the key (at most 4096)",
		Summary: "Takes slots of a concurrency limit, or renews them; they free themselves after their ttl.",
		Syntax:  "key limit ttl [ID id] [COST units]",
		Handler: acquire, Headless: acquireHeadless,
	}, {
		Name: "rl.release", Arity: 3, Flags: command.Write | command.Fast, Keys: key, Categories: command.CatLimiter,
		Group: "limiter", Complexity: "O(N), N the number of holders of the key (at most 4096)",
		Summary: "Gives back slots of a concurrency limit.",
		Syntax:  "key id",
		Handler: release,
	}, {
		Name: "rl.extend", Arity: 4, Flags: command.Write | command.Fast, Keys: key, Categories: command.CatLimiter,
		Group: "limiter", Complexity: "O(N), N the number of holders of the key (at most 4096)",
		Summary: "Gives slots of a concurrency limit a new ttl from now.",
		Syntax:  "key id ttl",
		Handler: extend,
	}}
}

// acquireHeadless leaves the answer to the node's failure policy. While the leader is
// only late, the node gives out no slots.
func acquireHeadless([][]byte) command.Headless { return command.Headless{} }

// acquire replies [allowed, limit, remaining, retry_after_ms, id, ttl_ms].
func acquire(call *command.Call) {
	a, err := parseAcquire(call.Args[2:])
	if err != nil {
		call.Error(err.Error())
		return
	}
	d, holder, err := call.Limits.Acquire(call.Now, call.Args[1], a.limit, a.ttl, a.id, a.cost)
	if err != nil {
		call.Fail(err)
		return
	}
	call.Decided(d.OK)
	wire.OpenDecision(call, 6)
	wire.IntField(call.W, "allowed", command.Truth(d.OK))
	wire.IntField(call.W, "limit", d.Limit)
	wire.IntField(call.W, "remaining", d.Remaining)
	wire.IntField(call.W, "retry_after_ms", command.CeilMillis(d.RetryAfter))
	wire.Field(call.W, "id")
	if d.OK {
		call.W.BulkString(holder)
		wire.IntField(call.W, "ttl_ms", command.CeilMillis(a.ttl))
	} else {
		call.W.Null()
		wire.IntField(call.W, "ttl_ms", 0)
	}
	wire.CloseDecision(call)
}

// acquireArgs are the arguments of RL.ACQUIRE after the key.
type acquireArgs struct {
	limit, ttl, cost int64
	id               []byte // empty asks for a generated one
}

func parseAcquire(args [][]byte) (a acquireArgs, err error) {
	a.cost = 1
	if a.limit, err = wire.ParseInteger(args[0]); err != nil {
		return a, err
	}
	if a.ttl, err = wire.ParsePeriod(args[1]); err != nil {
		return a, err
	}
	for rest := args[2:]; len(rest) > 0; rest = rest[2:] {
		if len(rest) < 2 {
			return a, command.ErrSyntax
		}
		switch value := rest[1]; {
		case command.EqualFold(rest[0], "id"):
			if a.id = value; len(value) == 0 {
				return a, command.EngineError(algo.ErrHolderID)
			}
		case command.EqualFold(rest[0], "cost"):
			if a.cost, err = wire.ParseInteger(value); err != nil {
				return a, err
			}
		default:
			return a, command.ErrSyntax
		}
	}
	return a, nil
}

func release(call *command.Call) {
	held, err := call.Sess.Release(call.Now, call.Args[1], call.Args[2])
	replyHeld(call, held, err)
}

func extend(call *command.Call) {
	ttl, err := wire.ParsePeriod(call.Args[3])
	if err != nil {
		call.Error(err.Error())
		return
	}
	held, err := call.Sess.Extend(call.Now, call.Args[1], call.Args[2], ttl)
	replyHeld(call, held, err)
}

func replyHeld(call *command.Call, held bool, err error) {
	if err != nil {
		call.Fail(err)
		return
	}
	call.W.Int(command.Truth(held))
}
