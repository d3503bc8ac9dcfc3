package server

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

// keyspaceCommands are Redis's commands on keys, whatever state they hold.
func keyspaceCommands() []command.Spec {
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
			Syntax: "key [key ...]", Handler: onConn(cmdDel)},
		{Name: "unlink", Arity: -2, Flags: write | command.Long, Keys: many, Categories: command.CatKeyspace, Group: group,
			Complexity: "O(N), N the number of keys", Summary: "Deletes keys, as DEL.",
			Syntax: "key [key ...]", Handler: onConn(cmdDel)},
		{Name: "rl.reset", Arity: -2, Flags: command.Write | command.Fast | command.Long,
			Keys: command.Keys{First: 1, Last: -1, Step: 1}, Categories: command.CatLimiter,
			Group: "limiter", Complexity: "O(N), N the number of keys",
			Summary: "Forgets the state of keys: their limits are full again.",
			Syntax:  "key [key ...]",
			Handler: onConn(cmdDel)},
		{Name: "exists", Arity: -2, Flags: read | command.Long, Keys: many, Categories: command.CatKeyspace, Group: group,
			Complexity: "O(N), N the number of keys", Summary: "Counts the keys that exist.",
			Syntax: "key [key ...]", Handler: onConn(cmdExists)},
		{Name: "touch", Arity: -2, Flags: read | command.Long, Keys: many, Categories: command.CatKeyspace, Group: group,
			Complexity: "O(N), N the number of keys", Summary: "Counts the keys that exist; states have no access time.",
			Syntax: "key [key ...]", Handler: onConn(cmdExists)},
		{Name: "type", Arity: 2, Flags: read, Keys: one, Categories: command.CatKeyspace, Group: group,
			Complexity: "O(1)", Summary: "Tells what a key holds: an algorithm's state, slots, or string for a counter.",
			Syntax: "key", Handler: onConn(cmdType)},
		{Name: "ttl", Arity: 2, Flags: read, Keys: one, Categories: command.CatKeyspace, Group: group,
			Complexity: "O(1)", Summary: "Returns the seconds until a key expires.", Syntax: "key", Handler: onConn(cmdTTL)},
		{Name: "pttl", Arity: 2, Flags: read, Keys: one, Categories: command.CatKeyspace, Group: group,
			Complexity: "O(1)", Summary: "Returns the milliseconds until a key expires.", Syntax: "key", Handler: onConn(cmdPTTL)},
		{Name: "expiretime", Arity: 2, Flags: read, Keys: one, Categories: command.CatKeyspace, Group: group,
			Complexity: "O(1)", Summary: "Returns the Unix time in seconds at which a key expires.", Syntax: "key", Handler: onConn(cmdExpireTime)},
		{Name: "pexpiretime", Arity: 2, Flags: read, Keys: one, Categories: command.CatKeyspace, Group: group,
			Complexity: "O(1)", Summary: "Returns the Unix time in milliseconds at which a key expires.", Syntax: "key", Handler: onConn(cmdPExpireTime)},
		{Name: "expire", Arity: -3, Flags: write, Keys: one, Categories: command.CatKeyspace, Group: group,
			Complexity: "O(1)", Summary: "Sets the TTL of a counter in seconds; other keys expire by themselves.",
			Syntax: "key seconds" + expireSyntax, Handler: onCall(expireCommand(time.Second, false))},
		{Name: "pexpire", Arity: -3, Flags: write, Keys: one, Categories: command.CatKeyspace, Group: group,
			Complexity: "O(1)", Summary: "Sets the TTL of a counter in milliseconds; other keys expire by themselves.",
			Syntax: "key milliseconds" + expireSyntax, Handler: onCall(expireCommand(time.Millisecond, false))},
		{Name: "expireat", Arity: -3, Flags: write, Keys: one, Categories: command.CatKeyspace, Group: group,
			Complexity: "O(1)", Summary: "Sets the expiry of a counter to a Unix time in seconds.",
			Syntax: "key unix-time-seconds" + expireSyntax, Handler: onCall(expireCommand(time.Second, true))},
		{Name: "pexpireat", Arity: -3, Flags: write, Keys: one, Categories: command.CatKeyspace, Group: group,
			Complexity: "O(1)", Summary: "Sets the expiry of a counter to a Unix time in milliseconds.",
			Syntax: "key unix-time-milliseconds" + expireSyntax, Handler: onCall(expireCommand(time.Millisecond, true))},
		{Name: "persist", Arity: 2, Flags: write, Keys: one, Categories: command.CatKeyspace, Group: group,
			Complexity: "O(1)", Summary: "Removes the TTL of a counter.", Syntax: "key", Handler: onConn(cmdPersist)},
		{Name: "scan", Arity: -2, Flags: command.Readonly | command.Long, Categories: command.CatKeyspace, Group: group,
			Complexity: "O(1) a call, O(N) for a whole iteration", Summary: "Iterates over the keys.",
			Syntax: "cursor [MATCH pattern] [COUNT count] [TYPE type]", Handler: onConn(cmdScan)},
		{Name: "keys", Arity: 2, Flags: command.Readonly | command.Long, Categories: command.CatKeyspace | command.CatDangerous, Group: group,
			Complexity: "O(N)", Summary: "Returns the keys that match a pattern.", Syntax: "pattern", Handler: onConn(cmdKeys)},
		{Name: "randomkey", Arity: 1, Flags: command.Readonly, Categories: command.CatKeyspace, Group: group,
			Complexity: "O(1)", Summary: "Returns a random key.", Handler: onConn(cmdRandomKey)},
		{Name: "dbsize", Arity: 1, Flags: read, Categories: command.CatKeyspace, Group: "server",
			Complexity: "O(S), S the number of shards", Summary: "Returns the number of keys.", Handler: onConn(cmdDBSize)},
		{Name: "flushdb", Arity: -1, Flags: command.Write | command.Long, Categories: command.CatKeyspace | command.CatDangerous, Group: "server",
			Complexity: "O(N)", Summary: "Deletes every key.", Syntax: "[ASYNC | SYNC]", Handler: onConn(cmdFlush)},
		{Name: "flushall", Arity: -1, Flags: command.Write | command.Long, Categories: command.CatKeyspace | command.CatDangerous, Group: "server",
			Complexity: "O(N)", Summary: "Deletes every key.", Syntax: "[ASYNC | SYNC]", Handler: onConn(cmdFlush)},
	}
}

func cmdDel(c *conn, args [][]byte) { c.countKeys(args, (*engine.Session).Delete) }

func cmdExists(c *conn, args [][]byte) { c.countKeys(args, (*engine.Session).Exists) }

// keysInline is how many keys a loop handles itself, at about 100 ns each.
const keysInline = 1000

// countKeys replies of how many of a command's keys fn says true. More than
// keysInline go to a worker, with a session of its own: in EXEC, whose session
// holds the locks, they stay.
func (c *conn) countKeys(args [][]byte, fn func(s *engine.Session, now int64, key []byte) bool) {
	keys, now := args[1:], c.now()
	count := func(s *engine.Session, keys [][]byte) (n int64) {
		for _, key := range keys {
			n += command.Truth(fn(s, now, key))
		}
		return n
	}
	if len(keys) <= keysInline || c.inExec {
		c.w.Int(count(c.sess, keys))
		return
	}
	keys = command.CloneArgs(keys)
	c.jobArgs = clipArgs(args) // a fast command's are not kept otherwise
	c.blockKeeping(command.ArgsSize(keys), func(w *resp.Writer) {
		s := c.srv.engine.NewSession()
		defer s.Close()
		n := count(s, keys)
		if s.Refused() {
			c.srv.uncertain(w)
			return
		}
		w.Int(n)
	})
}

func cmdType(c *conn, args [][]byte) {
	if a, ok := c.sess.Kind(c.now(), args[1]); ok {
		c.w.Simple(command.TypeName(a))
		return
	}
	c.w.Simple("none")
}

// ttlMissing is the TTL of a key that does not exist.
const ttlMissing = -2

// replyDeadline replies when a key expires, converted by fn.
func (c *conn) replyDeadline(key []byte, fn func(at int64) int64) {
	at, persistent, ok := c.sess.Deadline(c.now(), key)
	switch {
	case !ok:
		c.w.Int(ttlMissing)
	case persistent:
		c.w.Int(command.TTLPersistent)
	default:
		c.w.Int(fn(at))
	}
}

// cmdTTL rounds to the nearest second, as Redis does.
func cmdTTL(c *conn, args [][]byte) {
	c.replyDeadline(args[1], func(at int64) int64 { return (command.CeilMillis(at-c.now()) + 500) / 1000 })
}

func cmdPTTL(c *conn, args [][]byte) {
	c.replyDeadline(args[1], func(at int64) int64 { return command.CeilMillis(at - c.now()) })
}

func cmdExpireTime(c *conn, args [][]byte) {
	c.replyDeadline(args[1], func(at int64) int64 { return (command.CeilMillis(at) + 500) / 1000 })
}

func cmdPExpireTime(c *conn, args [][]byte) {
	c.replyDeadline(args[1], command.CeilMillis)
}

// expireCommand returns the handler of one of the four EXPIREs.
func expireCommand(unit time.Duration, absolute bool) func(c *conn, call *command.Call) {
	return func(c *conn, call *command.Call) {
		args := call.Args
		cond, err := parseExpireCondition(args[3:])
		if err != nil {
			c.error(err.Error())
			return
		}
		n, ok := resp.ParseInt(args[2])
		if !ok {
			c.error(command.ErrNotInteger.Error())
			return
		}
		base := c.now()
		if absolute {
			base = 0
		}
		at, ok := command.AddSpan(base, n, unit)
		if !ok {
			c.error(command.ErrInvalidExpire(call.Spec.Name).Error())
			return
		}
		c.w.Int(command.Truth(c.sess.Expire(c.now(), args[1], at, cond)))
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

func cmdPersist(c *conn, args [][]byte) {
	c.w.Int(command.Truth(c.sess.Persist(c.now(), args[1])))
}

const (
	// scanDefault is Redis's COUNT.
	scanDefault = 10
	// scanInline is how many keys a loop collects itself; a larger COUNT, or a
	// pattern that is not light, goes to a worker. A key costs about 100 ns.
	scanInline = 256
	// scanBatch is how many keys are copied before they are matched, and
	// scanSteps the steps of matching, and bytes of keys, after which a call
	// ends.
	scanBatch       = 16
	scanSteps       = 4 << 20
	scanStepsInline = 256 << 10
	// scanMost bounds the reply of one call, whatever COUNT says.
	scanMost = 100_000
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
			s.count = int(min(n, scanMost))
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
			if s.kind == "" || strings.EqualFold(s.kind, command.TypeName(kind)) {
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
	writeKeys(w, keys)
}

func writeKeys(w *resp.Writer, keys []string) {
	w.Array(len(keys))
	for _, k := range keys {
		w.BulkString(k)
	}
}

func cmdScan(c *conn, args [][]byte) {
	s, err := parseScan(args[1:])
	if err != nil {
		c.error(err.Error())
		return
	}
	e, now := c.srv.engine, c.now()
	if c.inExec {
		s.count = min(s.count, scanInline)
		s.run(e, now, scanStepsInline, c.w)
		return
	}
	if s.count <= scanInline && (s.pattern == nil || s.pattern.Light()) {
		s.run(e, now, scanStepsInline, c.w)
		return
	}
	c.block(func(w *resp.Writer) { s.run(e, now, scanSteps, w) })
}

// cmdKeys replies every matching key. A client is closed for a larger reply than
// its output buffer's limit, so more keys than that are not collected. In a
// transaction, which holds up its thread, it gives up after execTime.
func cmdKeys(c *conn, args [][]byte) {
	e, now, most, inExec := c.srv.engine, c.now(), c.srv.cfg.OutputBufferLimit, c.inExec
	pattern, ok := c.pattern(args[1])
	if !ok {
		return
	}
	c.block(func(w *resp.Writer) {
		var keys, batch []string
		size, began := 0, time.Now()
		for cursor := uint64(0); ; {
			if inExec && time.Since(began) > execTime {
				w.Error(errExecTime)
				return
			}
			batch = batch[:0]
			cursor = e.Scan(now, cursor, scanInline, func(key []byte, _ engine.Algorithm) {
				batch = append(batch, string(key))
			})
			for _, key := range batch {
				if pattern.Match(key) {
					keys = append(keys, key)
					size += len(key) + keyOverhead
				}
			}
			if size >= most {
				w.Error(errManyKeys)
				return
			}
			if cursor == 0 {
				break
			}
		}
		writeKeys(w, keys)
	})
}

const (
	// keyOverhead is what a key takes in a reply beside its bytes.
	keyOverhead = 16
	errManyKeys = "ERR the keys that match are more than client-output-buffer-limit, use SCAN"
)

// pattern compiles a pattern, or replies an error.
func (c *conn) pattern(b []byte) (*glob.Pattern, bool) {
	p, err := glob.Compile(string(b))
	if err != nil {
		c.error(command.EngineError(err).Error())
		return nil, false
	}
	return p, true
}

func cmdRandomKey(c *conn, _ [][]byte) {
	key, ok := c.srv.engine.Random(c.now(), rand.Uint64)
	if !ok {
		c.w.Null()
		return
	}
	c.w.Bulk(key)
}

func cmdDBSize(c *conn, _ [][]byte) { c.w.Int(int64(c.srv.engine.Len())) }

func cmdFlush(c *conn, args [][]byte) {
	if len(args) > 2 || len(args) == 2 && !command.EqualFold(args[1], "async") && !command.EqualFold(args[1], "sync") {
		c.error(command.ErrSyntax.Error())
		return
	}
	s := c.sess
	c.block(func(w *resp.Writer) {
		if !c.inExec {
			s = c.srv.engine.NewSession()
			defer s.Close()
		}
		if s.Flush() != nil {
			c.srv.uncertain(w)
			return
		}
		w.OK()
	})
}
