package main

// tclAbsent are commands, in lower case, that tests of Redis need and Headgate does not
// have. When Headgate gets one, its tests must leave the lists of tests that are not run.
var tclAbsent = []string{
	"blpop", "brpop", "blmove", "brpoplpush", "blmpop", "bzpopmin", "bzpopmax", "bzmpop", "lmpop", "zmpop",
	"zunion", "zinter", "zintercard", "zdiff", "zunionstore", "zinterstore", "zdiffstore", "zrangestore",
	"setbit", "getbit", "lcs", "dump", "restore", "migrate", "xadd", "xgroup", "xread", "geoadd", "georadius", "pfadd", "sort", "sort_ro",
	"fcall", "cluster|reset", "save",
}

// tclValues are the tests of Redis about values: those that fail, and those that are
// not run.
var (
	tclValuesFail = []allowance{
		{whyLarge, of("type/string: ", "Very big payload in GET/SET", "SETRANGE with out of range offset", "SETRANGE with huge offset")},
		{"The memory allocator is not jemalloc.", of("type/string: ", "trim on SET with big value")}, // not run without it
		{whyLarge, of("type/list-3: ", "ziplist implementation: value encoding and backlink")},
	}
	tclValuesNotRun = []allowance{
		{whyAbsent, of("type/string: ", "SETBIT*", "GETBIT*", "LCS*")},
		{whyAbsent, of("type/hash: ", "Hash ziplist of various encodings*")},
		{whyAbsent, of("type/list: ",
			"BLPOP*", "BRPOP*", "BLMOVE*", "BLMPOP_*", "BLMPOP with*", "LMPOP with*", "LMPOP single*", "LMPOP multiple*", "Basic LPOP/RPOP/LMPOP*",
			"LPOP/RPOP/LMPOP against empty list", "LPOP/RPOP/LMPOP NON-BLOCK or BLOCK against non list value", "client unblock tests",
			"MULTI/EXEC is isolated from the point of view of BL*", "Linked LMOVEs*", "Circular*", "Self-referential*",
			"SWAPDB awakes blocked client", "PUSH resulting from BRPOPLPUSH affect WATCH", "List ziplist of various encodings*",
		)},
		{whyAbsent, of("type/zset: ",
			"BZPOP*", "BZMPOP_*", "BZMPOP readraw*", "BZMPOP should*", "BZMPOP with*", "MULTI/EXEC is isolated from the point of view of BZ*",
			"Basic ZMPOP*", "ZPOP/ZMPOP*", "ZMPOP_*", "ZMPOP with*", "ZMPOP readraw*",
			"ZUNION*", "ZINTER*", "ZDIFF*", "ZRANGESTORE*", "ZREMRANGEBYLEX fuzzy*", "zunionInterDiff*", "ZMSCORE retrieve single member",
			"ZRANGE BYSCORE REV LIMIT", "ZRANGE BYLEX", // on what ZRANGESTORE leaves
		)},
	}
)

// tclServer are those about keys, scripts and the server.
var (
	tclServerFail = []allowance{
		{whyMemory, of("scripting: ", "Script - disallow write on OOM", "allow-oom shebang flag", "reject script do not cause a Lua stack leak", "Consistent eval error reporting")},
		{"A slow script delays no other client: other clients get no `BUSY`, and `lua-time-limit` ends the script.", of("",
			"multi: MULTI and script timeout", "multi: EXEC and script timeout", "multi: MULTI-EXEC body and script timeout", "multi: just EXEC and script timeout",
			"scripting: Timedout read-only scripts can be killed by SCRIPT KILL*", "scripting: Timedout script does not cause a false dead client",
			"scripting: Timedout script link is still usable after Lua returns",
		)},
		{whyIdle, of("introspection-2: ", "TTL, TYPE and EXISTS do not alter the last access time of a key", "TOUCH alters the last access time of a key")},
		{"`CLIENT LIST` does not show the sizes of a client's buffers.", of("introspection: ", "CLIENT LIST", "CLIENT INFO")},
		{"No keyspace notifications are published.", of("pubsub: ", "Keyspace notifications*")},
		{whyOwnConfig, of("introspection: ", "CONFIG SET with multiple args", "CONFIG SET rollback on apply error", "CONFIG SET rollback on set error", "CONFIG GET hidden configs", "CONFIG GET multiple args")},
		{whyOwnConfig, of("scripting: ", "not enough good replicas")},
		{whyOneUser, of("scripting: ", "Script ACL check")},
		{"`string.dump` is refused. In Redis, to load its result is refused.", of("scripting: ", "Binary code loading failed")},
	}
	tclServerNotRun = []allowance{
		{whyAbsent, of("keyspace: ", "COPY basic usage for stream*", "MOVE basic usage*", "MOVE against key existing*" /* on what those leave */)},
		{whyAbsent, of("introspection-2: ",
			"command stats for BRPOP", "command stats for MULTI", "command stats for scripts", "*for GEOADD", "COMMAND GETKEYS MORE THAN 256 KEYS", "COMMAND GETKEYS LCS",
			"COMMAND GETKEYS XGROUP", "COMMAND GETKEYSANDFLAGS", "ZUNIONSTORE command is marked with movablekeys", "MIGRATE command is marked with movablekeys",
			"XREAD command is marked with movablekeys", "GEORADIUS command is marked with movablekeys", "SORT command is marked with movablekeys", "SORT_RO command is marked with movablekeys",
		)},
		{whyAbsent, of("introspection: ", "MONITOR can log commands issued by functions")},
		{whyAbsent, of("scripting: ", "EVAL - Scripts can't run *", "SORT *", "CLUSTER RESET can not be invoke from within a script")},
		{whyAbsent, of("multi: ", "Blocking commands ignores the timeout", "EXEC fail on WATCHed key modified by SORT with STORE even if the result is empty", "MULTI with SAVE")},
		{whyAbsent, of("pause: ", "Test write commands are paused by RO", "Test special commands are paused by RO", "Test RO scripts are not blocked by pause RO")},
		{whyAbsent, of("slowlog: ", "SLOWLOG - Rewritten commands are logged as their original command")},
		// These stay in a transaction, spoil what is watched, or leave the server paused.
		{whyMemory, of("multi: ", "EXEC fails if there are errors while queueing commands #2", "DISCARD should not fail during OOM",
			"EXEC with only read commands should not be rejected when OOM", "EXEC with at least one use-memory command should fail")},
		{whySwap, of("multi: ", "SWAPDB is able to touch the watched keys that*")},
		{"`DEBUG SLEEP` is refused in a transaction.", of("slowlog: ", "SLOWLOG - EXEC is not logged, just executed commands")},
		{"While `CLIENT PAUSE` delays writes, a script that declares `no-writes` waits too.", of("pause: ", "Test read-only scripts in mutli-exec are not blocked by pause RO")},
		{"Keys expire also while `CLIENT PAUSE` delays writes.", of("pause: ", "Test both active and passive expires are skipped during client pause")},
	}
)
