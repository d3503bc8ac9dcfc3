package main

import (
	"context"
	"path/filepath"
	"slices"
)

// later is tests of fakeredis of a command that the installed Redis does not have. They
// run against its imitation of Redis and against a server, on port 6390.
func later(file, told string, allowed ...allowance) suite {
	return suite{
		library: "fakeredis", version: "2.40.0", what: "its own: " + filepath.Base(file), port: "6390", alone: true,
		fetch: fetchPython, run: runPython, plugin: "fakeredis_told", env: []string{"TOLD=" + told},
		tests: []string{"fakeredis-2.40.0", "-W", "ignore", "-m", "real", file}, allowed: allowed,
	}
}

var (
	fakeredisIncrex   = later("test/test_mixins/test_specific_redis_versions/test_redis_8_8_increx.py", "redis_version=8.8.0")
	fakeredisThrottle = later("test/test_dragonfly/test_cl_throttle.py", "dragonfly_version=df-v1.30.0",
		allowance{"A limit is no string: `GET` of it is `WRONGTYPE`, and `CL.THROTTLE` of a string is `WRONGTYPE` too, whatever it holds.", []string{
			"*test_cl_throttle_stores_expiring_key*", "*test_cl_throttle_wrong_type*",
		}},
		allowance{"An error says which argument of `CL.THROTTLE` is out of range.", []string{
			"*test_cl_throttle_zero_rates*", "*test_cl_throttle_invalid_args[*-args0]", "*test_cl_throttle_invalid_args[*-args1]",
			"*test_cl_throttle_invalid_args[*-args2]", "*test_cl_throttle_invalid_args[*-args3]",
		}},
		allowance{"A negative quantity gives back, as in redis-cell.", []string{"*test_cl_throttle_invalid_args[*-args4]"}},
	)
)

// fakeredisCommands are those of commands that are there, over the server alone.
var fakeredisCommands = suite{
	library: "fakeredis", version: "2.40.0", what: "its own: test_mixins, those of commands that are there", port: "6390",
	fetch: fetchPython, run: runPython, tries: 2, tests: append([]string{"fakeredis-2.40.0", "-W", "ignore", "--tb", "native", "-m", "real"}, fakeredisFiles...),
	allowed: []allowance{
		{whyAbsent, mixins("generic", "sort*", "dump_*", "restore_*", "basic_sort*", "watch_when_setbit_*", "from_hypothesis_redis7*")},
		{whyAbsent, mixins("generic_scan", "scan_stream*")},
		{whyAbsent, mixins("list", "rpoplpush_one_to_self*", "b*", "lmpop*")},
		{whyAbsent, mixins("sortedset", "zunion*", "zinter*", "zdiff*", "zrangestore*", "zmpop*", "bz*")},
		{whyAbsent, mixins("server", "save*", "bgsave*", "lastsave*")},
		{whyAbsent, mixins("pubsub", "pubsub_help_redis71*")},
		{whyAbsent, mixins("connection", "client_unblock_*")},
		{whyAbsent, mixins("set", "pf*")},
		{whyAbsent, []string{"test.test_mixins.test_sortedset_zadd test_zadd_roman*"}},
		{whyAbsent, mixins("string", "lcs*")},
		{whySwap, mixins("server", "swapdb*")},
		{whyLarge, mixins("string", "setrange[*")},
		{whyFar, mixins("generic", "expiretime*", "pexpiretime*", "copy_preserves_expiry*", "copy_replaces_with_expiry*", "copy_db_replaces_with_expire*")},
		{whyScan, mixins("generic_scan", "sscan_delete_key_while*", "hscan_delete_key_while*", "zscan_reports_the_score*", "hscan_continues_after*")},
		{whyWithScore, mixins("sortedset", "zrank_redis7_2*", "zrevrank_redis7_2*")},
	},
}

var fakeredisFiles = []string{
	"test/test_mixins/test_connection_commands.py", "test/test_mixins/test_string_commands.py", "test/test_mixins/test_hash_commands.py", "test/test_mixins/test_list_commands.py",
	"test/test_mixins/test_set_commands.py", "test/test_mixins/test_sortedset_commands.py", "test/test_mixins/test_sortedset_zadd.py",
	"test/test_mixins/test_generic_commands.py", "test/test_mixins/test_generic_scan_commands.py", "test/test_mixins/test_transactions_commands.py",
	"test/test_mixins/test_pubsub_commands.py", "test/test_mixins/test_scripting_commands.py", "test/test_mixins/test_server_commands.py",
}

// mixins are the names of fakeredis' tests of a kind of commands.
func mixins(kind string, names ...string) []string {
	list := make([]string, len(names))
	for i, name := range names {
		list[i] = "test.test_mixins.test_" + kind + "_commands test_" + name
	}
	return list
}

// redisPy is the tests of redis-py that need one server.
func redisPy(what, protocol string, allowed []allowance, files ...string) suite {
	return suite{
		library: "redis-py", version: "7.4.1", what: what, port: "6379", fetch: fetchRedisPy, run: runRedisPy, tries: 2,
		tests: slices.Concat([]string{
			"redis-7.4.1", "-W", "ignore", "--tb", "native", "-p", "no:flaky", "-p", "no:pytest-retry", "-p", "no:benchmark", "--protocol", protocol,
			// Those of modules, of Redis Cluster and of replicas ask for servers of their own.
			"-m", "not onlycluster and not redismod and not ssl and not replica",
		}, files),
		allowed: allowed,
	}
}

// fetchRedisPy asks for the package by its name, redis.
func fetchRedisPy(w *workshop, s *suite) error {
	told := *s
	told.library = "redis"
	return fetchPython(w, &told)
}

func runRedisPy(ctx context.Context, w *workshop, s *suite, t target) (result, error) {
	told := *s
	told.tests = append(slices.Clip(s.tests), "--redis-url", "redis://"+t.addr+"/0")
	return runPython(ctx, w, &told, t)
}

var (
	redisPy2 = redisPy("its own, RESP2: those that need one server", "2", redisPyDiffers, redisPyFiles...)
	redisPy3 = redisPy("its own, RESP3: the same", "3", redisPyDiffers, redisPyFiles...)
	// The commands have been tested.
	redisPyAsync = redisPy("its own, asyncio: those of connections", "2", []allowance{{whyAbsent, []string{"*test_pipeline_with_bitfield*"}}}, redisPyAsyncFiles...)
)

var redisPyFiles = []string{
	"tests/test_commands.py", "tests/test_pipeline.py", "tests/test_lock.py", "tests/test_scripting.py", "tests/test_pubsub.py",
	"tests/test_connection_pool.py", "tests/test_connection.py", "tests/test_connect.py", "tests/test_client.py",
	"tests/test_encoding.py", "tests/test_monitor.py", "tests/test_multiprocessing.py", "tests/test_retry.py", "tests/test_cache.py",
}

var redisPyAsyncFiles = []string{
	"tests/test_asyncio/test_pipeline.py", "tests/test_asyncio/test_lock.py", "tests/test_asyncio/test_scripting.py", "tests/test_asyncio/test_pubsub.py",
	"tests/test_asyncio/test_connection_pool.py", "tests/test_asyncio/test_connection.py", "tests/test_asyncio/test_connect.py", "tests/test_asyncio/test_client.py",
	"tests/test_asyncio/test_encoding.py", "tests/test_asyncio/test_monitor.py", "tests/test_asyncio/test_retry.py", "tests/test_asyncio/test_cwe_404.py",
}

// redisPyDiffers are tests of both protocols that fail against Headgate.
var redisPyDiffers = []allowance{
	{whyAbsent, commandsOf(
		"bitcount*", "bitop_*", "bitpos*", "bitfield_*", "get_set_bit", "blmove", "blpop", "brpop*", "blmpop", "lmpop", "bzpop*", "zmpop", "bzmpop",
		"dump_and_restore*", "restore*", "geo*", "lcs", "lists_with_*_keys", "pf*", "sort_*", "zdiff*", "zinter*", "zunion*", "zrangestore",
		"xack", "xadd*", "xautoclaim", "xclaim*", "xdel", "xgroup_*", "xinfo_*", "xlen", "xpending*", "xrange", "xread*", "xrevrange", "xtrim*",
		"bgsave", "lastsave", "lolwut", "replicaof", "client_unblock", "memory_malloc_stats",
	)},
	{whyAbsent, []string{"*test_pipeline_with_bitfield"}},
	{whyOneUser, commandsOf("auth*", "acl_dryrun*", "acl_deluser*", "acl_genpass", "acl_getuser_setuser*", "acl_list*", "acl_log*", "acl_setuser_*", "client_kill_filter_by_user")},
	{whyOwnConfig, commandsOf("config_set_multi_params")},
	{whyLarge, []string{"*test_large_responses"}},
	{whyFar, commandsOf("expiretime", "pexpiretime")},
	{whyIdle, commandsOf("object")},
	{whyWithScore, commandsOf("zrank_withscore", "zrevrank_withscore")},
	{"A single node answers `READONLY` with OK, as one of a cluster does.", commandsOf("readonly_invalid_cluster_state")},
	{whyKeyFlags, commandsOf("command_getkeysandflags")},
}

// Reasons that several suites have.
const (
	whyAbsent    = "The command, or its subcommand, is not there."
	whyOneUser   = "There are no users beside `default` and `admin`, so `ACL` makes none, and says nothing of their rights."
	whyOwnConfig = "`CONFIG` has Headgate's own parameters and bounds."
	whyLarge     = "A value is at most 1 MiB."
	whyFar       = "A time to live ends in the year 2262 at the latest."
	whyWithScore = "`ZRANK` and `ZREVRANK` have no `WITHSCORE`, which came with 7.2."
	whyScan      = "`HSCAN`, `SSCAN` and `ZSCAN` answer everything in one reply."
	whySwap      = "`SWAPDB` is not supported."
	whyIdle      = "`OBJECT` tells neither idle times nor frequencies."
	whyKeyFlags  = "`COMMAND GETKEYSANDFLAGS` says of all keys of a command what it does to any."
)

// commandsOf are the names of redis-py's tests of commands.
func commandsOf(names ...string) []string {
	list := make([]string, len(names))
	for i, name := range names {
		list[i] = "tests.test_commands.TestRedisCommands test_" + name
	}
	return list
}
