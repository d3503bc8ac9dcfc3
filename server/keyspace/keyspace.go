package keyspace

import (
	"slices"
	"time"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/resp"
	"github.com/headgate-io/headgate/server/command"
)

// Commands returns Redis's commands on keys of any type.
func Commands() []command.Spec { return slices.Concat(keyCommands(), moveCommands()) }

func keyCommands() []command.Spec {
	one := command.Keys{First: 1, Last: 1, Step: 1}
	many := command.Keys{First: 1, Last: -1, Step: 1}
	read := command.Readonly | command.Fast
	write := command.Write | command.Fast
	const group = "generic"
	const expireSyntax = " [NX | XX | GT | LT]"
	return []command.Spec{
		objectCommand(),
		memoryCommand(),
		{Name: "del", Arity: -2, Flags: write | command.Long, Keys: many, Join: command.JoinSum, Categories: command.CatKeyspace, Group: group,
			Complexity: "O(N), N the number of keys", Summary: "Deletes keys: their limits are full again.",
			Syntax: "key [key ...]", Handler: del},
		{Name: "unlink", Arity: -2, Flags: write | command.Long, Keys: many, Join: command.JoinSum, Categories: command.CatKeyspace, Group: group,
			Complexity: "O(N), N the number of keys", Summary: "Deletes keys, as DEL.",
			Syntax: "key [key ...]", Handler: del},
		{Name: "rl.reset", Arity: -2, Flags: command.Write | command.Fast | command.Long,
			Keys: command.Keys{First: 1, Last: -1, Step: 1}, Join: command.JoinSum, Categories: command.CatLimiter,
			Group: "limiter", Complexity: "O(N), N the number of keys",
			Summary: "Forgets the state of keys: their limits are full again, but for what is out as leases.",
			Syntax:  "key [key ...]",
			Handler: reset},
		{Name: "exists", Arity: -2, Flags: read | command.Long | command.Counter, Keys: many, Join: command.JoinSum, Categories: command.CatKeyspace, Group: group,
			Complexity: "O(N), N the number of keys", Summary: "Counts the keys that exist.",
			Syntax: "key [key ...]", Handler: exists},
		{Name: "touch", Arity: -2, Flags: read | command.Long, Keys: many, Join: command.JoinSum, Categories: command.CatKeyspace, Group: group,
			Complexity: "O(N), N the number of keys", Summary: "Counts the keys that exist; states have no access time.",
			Syntax: "key [key ...]", Handler: exists},
		{Name: "type", Arity: 2, Flags: read, Keys: one, Categories: command.CatKeyspace, Group: group,
			Complexity: "O(1)", Summary: "Returns the type of a key: an algorithm's, slots, or string for a counter.",
			Syntax: "key", Handler: typeOf},
		{Name: "ttl", Arity: 2, Flags: read | command.Counter, Keys: one, Categories: command.CatKeyspace, Group: group,
			Complexity: "O(1)", Summary: "Returns the seconds until a key expires.", Syntax: "key", Handler: ttl},
		{Name: "pttl", Arity: 2, Flags: read | command.Counter, Keys: one, Categories: command.CatKeyspace, Group: group,
			Complexity: "O(1)", Summary: "Returns the milliseconds until a key expires.", Syntax: "key", Handler: pttl},
		{Name: "expiretime", Arity: 2, Flags: read | command.Counter, Keys: one, Categories: command.CatKeyspace, Group: group,
			Complexity: "O(1)", Summary: "Returns the Unix time in seconds at which a key expires.", Syntax: "key", Handler: expireTime},
		{Name: "pexpiretime", Arity: 2, Flags: read | command.Counter, Keys: one, Categories: command.CatKeyspace, Group: group,
			Complexity: "O(1)", Summary: "Returns the Unix time in milliseconds at which a key expires.", Syntax: "key", Handler: pexpireTime},
		{Name: "expire", Arity: -3, Flags: write | command.Counter, Keys: one, Categories: command.CatKeyspace, Group: group,
			Complexity: "O(1)", Summary: "Sets the TTL of a counter in seconds; other keys expire by themselves.",
			Syntax: "key seconds" + expireSyntax, Handler: expireCommand(time.Second, false)},
		{Name: "pexpire", Arity: -3, Flags: write | command.Counter, Keys: one, Categories: command.CatKeyspace, Group: group,
			Complexity: "O(1)", Summary: "Sets the TTL of a counter in milliseconds; other keys expire by themselves.",
			Syntax: "key milliseconds" + expireSyntax, Handler: expireCommand(time.Millisecond, false)},
		{Name: "expireat", Arity: -3, Flags: write | command.Counter, Keys: one, Categories: command.CatKeyspace, Group: group,
			Complexity: "O(1)", Summary: "Sets the expiry of a counter to a Unix time in seconds.",
			Syntax: "key unix-time-seconds" + expireSyntax, Handler: expireCommand(time.Second, true)},
		{Name: "pexpireat", Arity: -3, Flags: write | command.Counter, Keys: one, Categories: command.CatKeyspace, Group: group,
			Complexity: "O(1)", Summary: "Sets the expiry of a counter to a Unix time in milliseconds.",
			Syntax: "key unix-time-milliseconds" + expireSyntax, Handler: expireCommand(time.Millisecond, true)},
		{Name: "persist", Arity: 2, Flags: write, Keys: one, Categories: command.CatKeyspace, Group: group,
			Complexity: "O(1)", Summary: "Removes the TTL of a counter.", Syntax: "key", Handler: persist},
		{Name: "scan", Arity: -2, Flags: command.Readonly | command.Long, Join: command.JoinScan, Categories: command.CatKeyspace, Group: group,
			Complexity: "O(1) a call, O(N) for a whole iteration", Summary: "Iterates over the keys.",
			Syntax: "cursor [MATCH pattern] [COUNT count] [TYPE type]", Handler: scan},
		{Name: "keys", Arity: 2, Flags: command.Readonly | command.Long, Join: command.JoinLists, Categories: command.CatKeyspace | command.CatDangerous, Group: group,
			Complexity: "O(N)", Summary: "Returns the keys that match a pattern.", Syntax: "pattern", Handler: keys},
		{Name: "randomkey", Arity: 1, Flags: command.Readonly, Join: command.JoinAny, Categories: command.CatKeyspace, Group: group,
			Complexity: "O(1)", Summary: "Returns a random key.", Handler: randomKey},
		{Name: "dbsize", Arity: 1, Flags: read, Join: command.JoinSum, Categories: command.CatKeyspace, Group: "server",
			Complexity: "O(S), S the number of shards", Summary: "Returns the number of keys in the selected database.", Handler: dbSize},
		{Name: "flushdb", Arity: -1, Flags: command.Write | command.Long | command.Guarded, Join: command.JoinOK, Categories: command.CatKeyspace | command.CatDangerous, Group: "server",
			Complexity: "O(N)", Summary: "Deletes every key of the selected database.", Syntax: "[ASYNC | SYNC]", Handler: flush((*engine.Session).FlushDatabase)},
		{Name: "flushall", Arity: -1, Flags: command.Write | command.Long | command.Guarded, Join: command.JoinOK, Categories: command.CatKeyspace | command.CatDangerous, Group: "server",
			Complexity: "O(N)", Summary: "Deletes every key of all databases.", Syntax: "[ASYNC | SYNC]", Handler: flush((*engine.Session).Flush)},
	}
}

func reset(call *command.Call) {
	countKeys(call, func(s *engine.Session, now int64, key []byte) (bool, error) { return s.Leases().Reset(now, key) })
}

func del(call *command.Call) { countKeys(call, (*engine.Session).Delete) }

func exists(call *command.Call) { countKeys(call, (*engine.Session).Exists) }

// ofKey reports something about a key.
type ofKey func(s *engine.Session, now int64, key []byte) (bool, error)

// count returns the number of keys for which fn returns true.
func count(s *engine.Session, now int64, keys [][]byte, fn ofKey) (n int64, err error) {
	for _, key := range keys {
		is, err := fn(s, now, key)
		if err != nil {
			return 0, err
		}
		n += command.Truth(is)
	}
	return n, nil
}

// countKeys replies the number of a command's keys for which fn returns true.
func countKeys(call *command.Call, fn ofKey) {
	keys := call.Args[1:]
	if call.Long(len(keys)) {
		call.Leave()
		return
	}
	var n int64
	var err error
	call.Together(keys, func() { n, err = count(call.Sess, call.Now, keys, fn) })
	if err != nil {
		call.Fail(err)
		return
	}
	call.W.Int(n)
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

func dbSize(call *command.Call) {
	call.W.Int(int64(call.Sess.Engine().DatabaseLen(call.Sess.Database())))
}

// flush returns the handler of FLUSHALL and FLUSHDB.
func flush(flush func(s *engine.Session) error) command.Handler {
	return func(call *command.Call) {
		args := call.Args
		if len(args) > 2 || len(args) == 2 && !command.EqualFold(args[1], "async") && !command.EqualFold(args[1], "sync") {
			call.Error(command.ErrSyntax.Error())
			return
		}
		s, host, inExec := call.Sess, call.Host, call.InExec
		if !inExec {
			s = call.NewSession()
		}
		host.Block(call, 0, func(w *resp.Writer) {
			if !inExec {
				defer s.Close()
			}
			if flush(s) != nil {
				host.Uncertain(w)
				return
			}
			w.OK()
		})
	}
}
