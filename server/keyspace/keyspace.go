package keyspace

import (
	"errors"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/resp"
	"github.com/headgate-io/headgate/server/command"
	"github.com/headgate-io/headgate/server/glob"
)

// Commands are Redis's commands on keys, whatever state they hold.
func Commands() []command.Spec {
	one := command.Keys{First: 1, Last: 1, Step: 1}
	many := command.Keys{First: 1, Last: -1, Step: 1}
	read := command.Readonly | command.Fast
	write := command.Write | command.Fast
	const group = "generic"
	const expireSyntax = " [NX | XX | GT | LT]"
	return []command.Spec{
		objectCommand(),
		memoryCommand(),
		{Name: "del", Arity: -2, Flags: write | command.Long, Keys: many, Categories: command.CatKeyspace, Group: group,
			Complexity: "O(N), N the number of keys", Summary: "Deletes keys: their limits are full again.",
			Syntax: "key [key ...]", Handler: del},
		{Name: "unlink", Arity: -2, Flags: write | command.Long, Keys: many, Categories: command.CatKeyspace, Group: group,
			Complexity: "O(N), N the number of keys", Summary: "Deletes keys, as DEL.",
			Syntax: "key [key ...]", Handler: del},
		{Name: "rl.reset", Arity: -2, Flags: command.Write | command.Fast | command.Long,
			Keys: command.Keys{First: 1, Last: -1, Step: 1}, Categories: command.CatLimiter,
			Group: "limiter", Complexity: "O(N), N the number of keys",
			Summary: "Forgets the state of keys: their limits are full again.",
			Syntax:  "key [key ...]",
			Handler: del},
		{Name: "exists", Arity: -2, Flags: read | command.Long, Keys: many, Categories: command.CatKeyspace, Group: group,
			Complexity: "O(N), N the number of keys", Summary: "Counts the keys that exist.",
			Syntax: "key [key ...]", Handler: exists},
		{Name: "touch", Arity: -2, Flags: read | command.Long, Keys: many, Categories: command.CatKeyspace, Group: group,
			Complexity: "O(N), N the number of keys", Summary: "Counts the keys that exist; states have no access time.",
			Syntax: "key [key ...]", Handler: exists},
		{Name: "type", Arity: 2, Flags: read, Keys: one, Categories: command.CatKeyspace, Group: group,
			Complexity: "O(1)", Summary: "Tells what a key holds: an algorithm's state, slots, or string for a counter.",
			Syntax: "key", Handler: typeOf},
		{Name: "ttl", Arity: 2, Flags: read, Keys: one, Categories: command.CatKeyspace, Group: group,
			Complexity: "O(1)", Summary: "Returns the seconds until a key expires.", Syntax: "key", Handler: ttl},
		{Name: "pttl", Arity: 2, Flags: read, Keys: one, Categories: command.CatKeyspace, Group: group,
			Complexity: "O(1)", Summary: "Returns the milliseconds until a key expires.", Syntax: "key", Handler: pttl},
		{Name: "expiretime", Arity: 2, Flags: read, Keys: one, Categories: command.CatKeyspace, Group: group,
			Complexity: "O(1)", Summary: "Returns the Unix time in seconds at which a key expires.", Syntax: "key", Handler: expireTime},
		{Name: "pexpiretime", Arity: 2, Flags: read, Keys: one, Categories: command.CatKeyspace, Group: group,
			Complexity: "O(1)", Summary: "Returns the Unix time in milliseconds at which a key expires.", Syntax: "key", Handler: pexpireTime},
		{Name: "expire", Arity: -3, Flags: write, Keys: one, Categories: command.CatKeyspace, Group: group,
			Complexity: "O(1)", Summary: "Sets the TTL of a counter in seconds; other keys expire by themselves.",
			Syntax: "key seconds" + expireSyntax, Handler: expireCommand(time.Second, false)},
		{Name: "pexpire", Arity: -3, Flags: write, Keys: one, Categories: command.CatKeyspace, Group: group,
			Complexity: "O(1)", Summary: "Sets the TTL of a counter in milliseconds; other keys expire by themselves.",
			Syntax: "key milliseconds" + expireSyntax, Handler: expireCommand(time.Millisecond, false)},
		{Name: "expireat", Arity: -3, Flags: write, Keys: one, Categories: command.CatKeyspace, Group: group,
			Complexity: "O(1)", Summary: "Sets the expiry of a counter to a Unix time in seconds.",
			Syntax: "key unix-time-seconds" + expireSyntax, Handler: expireCommand(time.Second, true)},
		{Name: "pexpireat", Arity: -3, Flags: write, Keys: one, Categories: command.CatKeyspace, Group: group,
			Complexity: "O(1)", Summary: "Sets the expiry of a counter to a Unix time in milliseconds.",
			Syntax: "key unix-time-milliseconds" + expireSyntax, Handler: expireCommand(time.Millisecond, true)},
		{Name: "persist", Arity: 2, Flags: write, Keys: one, Categories: command.CatKeyspace, Group: group,
			Complexity: "O(1)", Summary: "Removes the TTL of a counter.", Syntax: "key", Handler: persist},
		{Name: "scan", Arity: -2, Flags: command.Readonly | command.Long, Categories: command.CatKeyspace, Group: group,
			Complexity: "O(1) a call, O(N) for a whole iteration", Summary: "Iterates over the keys.",
			Syntax: "cursor [MATCH pattern] [COUNT count] [TYPE type]", Handler: scan},
		{Name: "keys", Arity: 2, Flags: command.Readonly | command.Long, Categories: command.CatKeyspace | command.CatDangerous, Group: group,
			Complexity: "O(N)", Summary: "Returns the keys that match a pattern.", Syntax: "pattern", Handler: keys},
		{Name: "randomkey", Arity: 1, Flags: command.Readonly, Categories: command.CatKeyspace, Group: group,
			Complexity: "O(1)", Summary: "Returns a random key.", Handler: randomKey},
		{Name: "dbsize", Arity: 1, Flags: read, Categories: command.CatKeyspace, Group: "server",
			Complexity: "O(S), S the number of shards", Summary: "Returns the number of keys.", Handler: dbSize},
		{Name: "flushdb", Arity: -1, Flags: command.Write | command.Long, Categories: command.CatKeyspace | command.CatDangerous, Group: "server",
			Complexity: "O(N)", Summary: "Deletes every key.", Syntax: "[ASYNC | SYNC]", Handler: flush},
		{Name: "flushall", Arity: -1, Flags: command.Write | command.Long, Categories: command.CatKeyspace | command.CatDangerous, Group: "server",
			Complexity: "O(N)", Summary: "Deletes every key.", Syntax: "[ASYNC | SYNC]", Handler: flush},
	}
}

func del(call *command.Call) { countKeys(call, (*engine.Session).Delete) }

func exists(call *command.Call) { countKeys(call, (*engine.Session).Exists) }

// keysInline is how many keys a loop handles itself, at about 100 ns each.
const keysInline = 1000

// countKeys replies of how many of a command's keys fn says true. More than
// keysInline go to a worker, with a session of its own: in EXEC, whose session
// holds the locks, they stay.
func countKeys(call *command.Call, fn func(s *engine.Session, now int64, key []byte) (bool, error)) {
	keys, now := call.Args[1:], call.Now
	count := func(s *engine.Session, keys [][]byte) (n int64, err error) {
		for _, key := range keys {
			is, err := fn(s, now, key)
			if err != nil {
				return 0, err
			}
			n += command.Truth(is)
		}
		return n, nil
	}
	if len(keys) <= keysInline || call.InExec {
		if n, err := count(call.Sess, keys); err != nil {
			call.Fail(err)
		} else {
			call.W.Int(n)
		}
		return
	}
	keys = command.CloneArgs(keys)
	e, host := call.Sess.Engine(), call.Host
	host.Block(call, command.ArgsSize(keys), func(w *resp.Writer) {
		s := e.NewSession()
		defer s.Close()
		n, err := count(s, keys)
		if err != nil {
			host.Uncertain(w)
			return
		}
		w.Int(n)
	})
}

func typeOf(call *command.Call) {
	a, ok, err := call.Sess.Kind(call.Now, call.Args[1])
	if err != nil {
		call.Fail(err)
		return
	}
	if ok {
		call.W.Simple(a.Type())
		return
	}
	call.W.Simple("none")
}

// ttlMissing is the TTL of a key that does not exist.
const ttlMissing = -2

// replyDeadline replies when a key expires, converted by fn.
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

// expireCommand returns the handler of one of the four EXPIREs.
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

const (
	// scanDefault is Redis's COUNT.
	scanDefault = 10
	// ScanInline is how many keys a loop collects itself; a larger COUNT, or a
	// pattern that is not light, goes to a worker. A key costs about 100 ns.
	ScanInline = 256
	// scanBatch is how many keys are copied before they are matched, and
	// scanSteps the steps of matching, and bytes of keys, after which a call
	// ends.
	scanBatch       = 16
	scanSteps       = 4 << 20
	scanStepsInline = 256 << 10
	// ScanMost bounds the reply of one call, whatever COUNT says.
	ScanMost = 100_000
)

// scanCall is a parsed SCAN.
type scanCall struct {
	cursor  uint64
	count   int
	pattern *glob.Pattern // nil is any
	kind    string        // "" is any
}

// Errors begin with their code.
func parseScan(args [][]byte) (s scanCall, err error) {
	s.count = scanDefault
	cursor, ok := resp.ParseInt(args[0])
	if !ok || cursor < 0 {
		return s, errors.New("ERR invalid cursor")
	}
	s.cursor = uint64(cursor)
	for args = args[1:]; len(args) > 0; args = args[2:] {
		if len(args) < 2 {
			return s, command.ErrSyntax
		}
		switch {
		case command.EqualFold(args[0], "match"):
			if s.pattern, err = glob.Compile(string(args[1])); err != nil {
				return s, command.EngineError(err)
			}
		case command.EqualFold(args[0], "count"):
			n, ok := resp.ParseInt(args[1])
			if !ok {
				return s, command.ErrNotInteger
			}
			if n < 1 {
				return s, command.ErrSyntax
			}
			s.count = int(min(n, ScanMost))
		case command.EqualFold(args[0], "type"):
			s.kind = string(args[1])
		default:
			return s, command.ErrSyntax
		}
	}
	return s, nil
}

// run collects the keys of one call. It ends early, with a cursor to go on
// with, when it has taken as many steps as most. Keys are copied under the lock of
// their shard and matched outside of it.
func (s *scanCall) run(e *engine.Engine, now int64, most int, w *resp.Writer) {
	var keys, batch []string
	cursor := s.cursor
	for left, steps := s.count, 0; left > 0 && steps < most; {
		batch = batch[:0]
		seen := 0
		cursor = e.Scan(now, cursor, min(left, scanBatch), func(key []byte, kind engine.Algorithm) {
			seen++
			if s.kind == "" || strings.EqualFold(s.kind, kind.Type()) {
				batch = append(batch, string(key))
			}
		})
		for _, key := range batch {
			steps += len(key)
			if s.pattern != nil {
				steps += s.pattern.Steps(len(key))
			}
			if s.pattern == nil || s.pattern.Match(key) {
				keys = append(keys, key)
			}
		}
		if cursor == 0 {
			break
		}
		// An empty stretch costs a visit too.
		left -= max(seen, 1)
	}
	w.Array(2)
	w.Bulk(strconv.AppendUint(nil, cursor, 10))
	WriteKeys(w, keys)
}

// WriteKeys replies a list of keys.
func WriteKeys(w *resp.Writer, keys []string) {
	w.Array(len(keys))
	for _, k := range keys {
		w.BulkString(k)
	}
}

func scan(call *command.Call) {
	s, err := parseScan(call.Args[1:])
	if err != nil {
		call.Error(err.Error())
		return
	}
	e, now := call.Sess.Engine(), call.Now
	if call.InExec {
		s.count = min(s.count, ScanInline)
		s.run(e, now, scanStepsInline, call.W)
		return
	}
	if s.count <= ScanInline && (s.pattern == nil || s.pattern.Light()) {
		s.run(e, now, scanStepsInline, call.W)
		return
	}
	call.Host.Block(call, 0, func(w *resp.Writer) { s.run(e, now, scanSteps, w) })
}

// keys replies every matching key. A client is closed for a larger reply than
// its output buffer's limit, so more keys than that are not collected. In a
// transaction, which holds up its thread, it gives up after command.ExecTime.
func keys(call *command.Call) {
	e, now, most, inExec := call.Sess.Engine(), call.Now, call.Host.MostReply(), call.InExec
	pattern, err := glob.Compile(string(call.Args[1]))
	if err != nil {
		call.Error(command.EngineError(err).Error())
		return
	}
	call.Host.Block(call, 0, func(w *resp.Writer) {
		var keys, batch []string
		size, began := 0, time.Now()
		for cursor := uint64(0); ; {
			if inExec && time.Since(began) > command.ExecTime {
				w.Error(command.ErrExecTime)
				return
			}
			batch = batch[:0]
			cursor = e.Scan(now, cursor, ScanInline, func(key []byte, _ engine.Algorithm) {
				batch = append(batch, string(key))
			})
			for _, key := range batch {
				if pattern.Match(key) {
					keys = append(keys, key)
					size += len(key) + KeyOverhead
				}
			}
			if size >= most {
				w.Error(ErrManyKeys)
				return
			}
			if cursor == 0 {
				break
			}
		}
		WriteKeys(w, keys)
	})
}

const (
	// KeyOverhead is what a key takes in a reply beside its bytes.
	KeyOverhead = 16
	ErrManyKeys = "ERR the keys that match are more than client-output-buffer-limit, use SCAN"
)

func randomKey(call *command.Call) {
	key, ok := call.Sess.Engine().Random(call.Now, rand.Uint64)
	if !ok {
		call.W.Null()
		return
	}
	call.W.Bulk(key)
}

func dbSize(call *command.Call) { call.W.Int(int64(call.Sess.Engine().Len())) }

func flush(call *command.Call) {
	args := call.Args
	if len(args) > 2 || len(args) == 2 && !command.EqualFold(args[1], "async") && !command.EqualFold(args[1], "sync") {
		call.Error(command.ErrSyntax.Error())
		return
	}
	s, host, inExec := call.Sess, call.Host, call.InExec
	host.Block(call, 0, func(w *resp.Writer) {
		if !inExec {
			s = s.Engine().NewSession()
			defer s.Close()
		}
		if s.Flush() != nil {
			host.Uncertain(w)
			return
		}
		w.OK()
	})
}
