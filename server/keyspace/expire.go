package keyspace

import (
	"bytes"
	"errors"
	"time"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/resp"
	"github.com/headgate-io/headgate/server/command"
)

// ttlMissing is the TTL of a key that does not exist.
const ttlMissing = -2

// replyDeadline replies when a key expires, after conversion by fn.
func replyDeadline(call *command.Call, fn func(at int64) int64) {
	at, persistent, ok, err := call.Sess.Deadline(call.Now, call.Args[1])
	switch {
	case err != nil:
		call.Fail(err)
	case !ok:
		call.W.Int(ttlMissing)
	case persistent:
		call.W.Int(command.TTLPersistent)
	default:
		call.W.Int(fn(at))
	}
}

// ttl rounds to the nearest second, as Redis does.
func ttl(call *command.Call) {
	replyDeadline(call, func(at int64) int64 { return (command.CeilMillis(at-call.Now) + 500) / 1000 })
}

func pttl(call *command.Call) {
	replyDeadline(call, func(at int64) int64 { return command.CeilMillis(at - call.Now) })
}

func expireTime(call *command.Call) {
	replyDeadline(call, func(at int64) int64 { return (command.CeilMillis(at) + 500) / 1000 })
}

func pexpireTime(call *command.Call) {
	replyDeadline(call, command.CeilMillis)
}

// expireCommand returns the handler of EXPIRE, PEXPIRE, EXPIREAT or PEXPIREAT.
func expireCommand(unit time.Duration, absolute bool) command.Handler {
	return func(call *command.Call) {
		args := call.Args
		cond, err := parseExpireCondition(args[3:])
		if err != nil {
			call.Error(err.Error())
			return
		}
		n, ok := resp.ParseInt(args[2])
		if !ok {
			call.Error(command.ErrNotInteger.Error())
			return
		}
		base := call.Now
		if absolute {
			base = 0
		}
		at, ok := command.AddSpan(base, n, unit)
		if !ok {
			call.Error(command.ErrInvalidExpire(call.Spec.Name).Error())
			return
		}
		is, err := call.Sess.Expire(call.Now, args[1], at, cond)
		replyTruth(call, is, err)
	}
}

func parseExpireCondition(args [][]byte) (cond engine.ExpireCondition, err error) {
	for _, a := range args {
		switch {
		case command.EqualFold(a, "nx"):
			cond |= engine.ExpireNX
		case command.EqualFold(a, "xx"):
			cond |= engine.ExpireXX
		case command.EqualFold(a, "gt"):
			cond |= engine.ExpireGT
		case command.EqualFold(a, "lt"):
			cond |= engine.ExpireLT
		default:
			a, _, _ = bytes.Cut(a, []byte{0}) // Redis writes it as a string of C
			return 0, errors.New("ERR Unsupported option " + string(command.Clip(a, command.ErrorClip)))
		}
	}
	if cond&engine.ExpireNX != 0 && cond != engine.ExpireNX {
		return 0, errors.New("ERR NX and XX, GT or LT options at the same time are not compatible")
	}
	if cond&engine.ExpireGT != 0 && cond&engine.ExpireLT != 0 {
		return 0, errors.New("ERR GT and LT options at the same time are not compatible")
	}
	return cond, nil
}

func persist(call *command.Call) {
	is, err := call.Sess.Persist(call.Now, call.Args[1])
	replyTruth(call, is, err)
}

// replyTruth replies 1 for true and 0 for false.
func replyTruth(call *command.Call, is bool, err error) {
	if err != nil {
		call.Fail(err)
		return
	}
	call.W.Int(command.Truth(is))
}
