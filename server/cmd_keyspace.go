package server

import (
	"errors"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/resp"
	"github.com/headgate-io/headgate/server/glob"
)

// keyspaceCommands are Redis's commands on keys, whatever state they hold.
func keyspaceCommands() []command {
	one := keySpec{first: 1, last: 1, step: 1}
	many := keySpec{first: 1, last: -1, step: 1}
	read := flagReadonly | flagFast
	write := flagWrite | flagFast
	const group = "generic"
	const expireSyntax = " [NX | XX | GT | LT]"
	return []command{
		objectCommand(),
		memoryCommand(),
		{name: "del", arity: -2, flags: write | flagLong, keys: many, categories: catKeyspace, group: group,
			complexity: "O(N), N the number of keys", summary: "Deletes keys: their limits are full again.",
			syntax: "key [key ...]", handler: cmdDel},
		{name: "unlink", arity: -2, flags: write | flagLong, keys: many, categories: catKeyspace, group: group,
			complexity: "O(N), N the number of keys", summary: "Deletes keys, as DEL.",
			syntax: "key [key ...]", handler: cmdDel},
		{name: "exists", arity: -2, flags: read | flagLong, keys: many, categories: catKeyspace, group: group,
			complexity: "O(N), N the number of keys", summary: "Counts the keys that exist.",
			syntax: "key [key ...]", handler: cmdExists},
		{name: "touch", arity: -2, flags: read | flagLong, keys: many, categories: catKeyspace, group: group,
			complexity: "O(N), N the number of keys", summary: "Counts the keys that exist; states have no access time.",
			syntax: "key [key ...]", handler: cmdExists},
		{name: "type", arity: 2, flags: read, keys: one, categories: catKeyspace, group: group,
			complexity: "O(1)", summary: "Tells what a key holds: an algorithm's state, slots, or string for a counter.",
			syntax: "key", handler: cmdType},
		{name: "ttl", arity: 2, flags: read, keys: one, categories: catKeyspace, group: group,
			complexity: "O(1)", summary: "Returns the seconds until a key expires.", syntax: "key", handler: cmdTTL},
		{name: "pttl", arity: 2, flags: read, keys: one, categories: catKeyspace, group: group,
			complexity: "O(1)", summary: "Returns the milliseconds until a key expires.", syntax: "key", handler: cmdPTTL},
		{name: "expiretime", arity: 2, flags: read, keys: one, categories: catKeyspace, group: group,
			complexity: "O(1)", summary: "Returns the Unix time in seconds at which a key expires.", syntax: "key", handler: cmdExpireTime},
		{name: "pexpiretime", arity: 2, flags: read, keys: one, categories: catKeyspace, group: group,
			complexity: "O(1)", summary: "Returns the Unix time in milliseconds at which a key expires.", syntax: "key", handler: cmdPExpireTime},
		{name: "expire", arity: -3, flags: write, keys: one, categories: catKeyspace, group: group,
			complexity: "O(1)", summary: "Sets the TTL of a counter in seconds; other keys expire by themselves.",
			syntax: "key seconds" + expireSyntax, handler: expireCommand(time.Second, false)},
		{name: "pexpire", arity: -3, flags: write, keys: one, categories: catKeyspace, group: group,
			complexity: "O(1)", summary: "Sets the TTL of a counter in milliseconds; other keys expire by themselves.",
			syntax: "key milliseconds" + expireSyntax, handler: expireCommand(time.Millisecond, false)},
		{name: "expireat", arity: -3, flags: write, keys: one, categories: catKeyspace, group: group,
			complexity: "O(1)", summary: "Sets the expiry of a counter to a Unix time in seconds.",
			syntax: "key unix-time-seconds" + expireSyntax, handler: expireCommand(time.Second, true)},
		{name: "pexpireat", arity: -3, flags: write, keys: one, categories: catKeyspace, group: group,
			complexity: "O(1)", summary: "Sets the expiry of a counter to a Unix time in milliseconds.",
			syntax: "key unix-time-milliseconds" + expireSyntax, handler: expireCommand(time.Millisecond, true)},
		{name: "persist", arity: 2, flags: write, keys: one, categories: catKeyspace, group: group,
			complexity: "O(1)", summary: "Removes the TTL of a counter.", syntax: "key", handler: cmdPersist},
		{name: "scan", arity: -2, flags: flagReadonly | flagLong, categories: catKeyspace, group: group,
			complexity: "O(1) a call, O(N) for a whole iteration", summary: "Iterates over the keys.",
			syntax: "cursor [MATCH pattern] [COUNT count] [TYPE type]", handler: cmdScan},
		{name: "keys", arity: 2, flags: flagReadonly | flagLong, categories: catKeyspace | catDangerous, group: group,
			complexity: "O(N)", summary: "Returns the keys that match a pattern.", syntax: "pattern", handler: cmdKeys},
		{name: "randomkey", arity: 1, flags: flagReadonly, categories: catKeyspace, group: group,
			complexity: "O(1)", summary: "Returns a random key.", handler: cmdRandomKey},
		{name: "dbsize", arity: 1, flags: read, categories: catKeyspace, group: "server",
			complexity: "O(S), S the number of shards", summary: "Returns the number of keys.", handler: cmdDBSize},
		{name: "flushdb", arity: -1, flags: flagWrite | flagLong, categories: catKeyspace | catDangerous, group: "server",
			complexity: "O(N)", summary: "Deletes every key.", syntax: "[ASYNC | SYNC]", handler: cmdFlush},
		{name: "flushall", arity: -1, flags: flagWrite | flagLong, categories: catKeyspace | catDangerous, group: "server",
			complexity: "O(N)", summary: "Deletes every key.", syntax: "[ASYNC | SYNC]", handler: cmdFlush},
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
			n += truth(fn(s, now, key))
		}
		return n
	}
	if len(keys) <= keysInline || c.inExec {
		c.w.Int(count(c.sess, keys))
		return
	}
	keys = cloneArgs(keys)
	c.jobArgs = clipArgs(args) // a fast command's are not kept otherwise
	c.blockKeeping(argsSize(keys), func(w *resp.Writer) {
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

// typeName is what TYPE and SCAN call a kind of state.
func typeName(a engine.Algorithm) string {
	if a == engine.Counter {
		return "string"
	}
	return a.String()
}

func cmdType(c *conn, args [][]byte) {
	if a, ok := c.sess.Kind(c.now(), args[1]); ok {
		c.w.Simple(typeName(a))
		return
	}
	c.w.Simple("none")
}

// The answers of the TTL family to a missing key and to one that never
// expires.
const (
	ttlMissing    = -2
	ttlPersistent = -1
)

// replyDeadline replies when a key expires, converted by fn.
func (c *conn) replyDeadline(key []byte, fn func(at int64) int64) {
	at, persistent, ok := c.sess.Deadline(c.now(), key)
	switch {
	case !ok:
		c.w.Int(ttlMissing)
	case persistent:
		c.w.Int(ttlPersistent)
	default:
		c.w.Int(fn(at))
	}
}

// cmdTTL rounds to the nearest second, as Redis does.
func cmdTTL(c *conn, args [][]byte) {
	c.replyDeadline(args[1], func(at int64) int64 { return (ceilMillis(at-c.now()) + 500) / 1000 })
}

func cmdPTTL(c *conn, args [][]byte) {
	c.replyDeadline(args[1], func(at int64) int64 { return ceilMillis(at - c.now()) })
}

func cmdExpireTime(c *conn, args [][]byte) {
	c.replyDeadline(args[1], func(at int64) int64 { return (ceilMillis(at) + 500) / 1000 })
}

func cmdPExpireTime(c *conn, args [][]byte) {
	c.replyDeadline(args[1], ceilMillis)
}

// expireCommand returns the handler of one of the four EXPIREs.
func expireCommand(unit time.Duration, absolute bool) func(c *conn, args [][]byte) {
	return func(c *conn, args [][]byte) {
		cond, err := parseExpireCondition(args[3:])
		if err != nil {
			c.error(err.Error())
			return
		}
		n, ok := resp.ParseInt(args[2])
		if !ok {
			c.error(errNotInteger.Error())
			return
		}
		base := c.now()
		if absolute {
			base = 0
		}
		at, ok := addSpan(base, n, unit)
		if !ok {
			c.error(errInvalidExpire(c.lane.counted.name).Error())
			return
		}
		c.w.Int(truth(c.sess.Expire(c.now(), args[1], at, cond)))
	}
}

func errInvalidExpire(command string) error {
	return errors.New("ERR invalid expire time in '" + command + "' command")
}

// addSpan returns base + n*unit, which must stay below the year 2262 and, so
// that a counter with a TTL is not taken for one without, below the largest
// int64. Times long past all mean the same.
func addSpan(base, n int64, unit time.Duration) (int64, bool) {
	if n > (math.MaxInt64-1-base)/int64(unit) {
		return 0, false
	}
	if n < -base/int64(unit) {
		return 0, true
	}
	return base + n*int64(unit), true
}

func parseExpireCondition(args [][]byte) (cond engine.ExpireCondition, err error) {
	for _, a := range args {
		switch {
		case equalFold(a, "nx"):
			cond |= engine.ExpireNX
		case equalFold(a, "xx"):
			cond |= engine.ExpireXX
		case equalFold(a, "gt"):
			cond |= engine.ExpireGT
		case equalFold(a, "lt"):
			cond |= engine.ExpireLT
		default:
			return 0, errors.New("ERR Unsupported option " + string(clip(a, errorClip)))
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
	c.w.Int(truth(c.sess.Persist(c.now(), args[1])))
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
			return s, errOptions
		}
		switch {
		case equalFold(args[0], "match"):
			if s.pattern, err = glob.Compile(string(args[1])); err != nil {
				return s, errEngine(err)
			}
		case equalFold(args[0], "count"):
			n, ok := resp.ParseInt(args[1])
			if !ok {
				return s, errNotInteger
			}
			if n < 1 {
				return s, errOptions
			}
			s.count = int(min(n, scanMost))
		case equalFold(args[0], "type"):
			s.kind = string(args[1])
		default:
			return s, errOptions
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
			if s.kind == "" || strings.EqualFold(s.kind, typeName(kind)) {
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
		c.error(errEngine(err).Error())
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
	if len(args) > 2 || len(args) == 2 && !equalFold(args[1], "async") && !equalFold(args[1], "sync") {
		c.error(errOptions.Error())
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
